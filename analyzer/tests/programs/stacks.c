/* Allocates on stacks that are not the thread's own.
 * usage: stacks coroutine|altstack|deep|alloca|minimal; prints one JSON line of its calls. */
#define _GNU_SOURCE
#include <alloca.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include "marks.h"

enum { PAGE = 4096, SMALL_STACK = 16 * 1024, COROUTINES = 8, TURNS = 400 };

static struct { uint64_t allocations, reallocations, deallocations, bytes; } count;

static __attribute__((noinline)) void churn(size_t size) {
    char *volatile p = malloc(size);
    p[0] = 1;
    p = realloc(p, size + 100);
    free(p);
    count.allocations++, count.reallocations++, count.deallocations++;
    count.bytes += 2 * size + 100;
}

/* A stack whose overflow is a crash, not silent damage: a page below it is closed. */
static char *guarded_stack(size_t size) {
    char *low = mmap(NULL, size + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (low == MAP_FAILED || mprotect(low, PAGE, PROT_NONE)) abort();
    return low + PAGE;
}

/* Coroutines that take turns, each in the middle of its own calls. */
static ucontext_t loop, coroutines[COROUTINES];

static __attribute__((noinline)) void descend(int self, int depth) {
    volatile char room[64];
    room[0] = (char)depth;
    churn(100 + (size_t)depth);
    if (depth > 0) {
        descend(self, depth - 1);
    } else {
        swapcontext(&coroutines[self], &loop);
    }
    churn(200 + (size_t)room[0]);
}

static void coroutine(int self) {
    for (;;) descend(self, 12);
}

static void run_coroutines(void) {
    for (int i = 0; i < COROUTINES; i++) {
        getcontext(&coroutines[i]);
        coroutines[i].uc_stack.ss_sp = guarded_stack(SMALL_STACK);
        coroutines[i].uc_stack.ss_size = SMALL_STACK;
        coroutines[i].uc_link = NULL;
        makecontext(&coroutines[i], (void (*)(void))coroutine, 1, i);
    }
    for (int turn = 0; turn < TURNS; turn++) {
        churn(50);
        swapcontext(&loop, &coroutines[turn * 5 % COROUTINES]);
    }
}

/* A handler on the alternate stack. raise() runs it here and now, never within malloc. */
static void on_signal(int number) {
    churn(300 + (size_t)number);
}

static void run_altstack(void) {
    stack_t stack = {.ss_sp = guarded_stack(4 * SMALL_STACK), .ss_size = 4 * SMALL_STACK};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_ONSTACK;
    sigaltstack(&stack, NULL);
    sigaction(SIGUSR1, &action, NULL);
    for (int turn = 0; turn < TURNS; turn++) {
        churn(50);
        raise(SIGUSR1);
    }
}

/* Deeper than any limit of a backtrace. */
static __attribute__((noinline)) void deep(int depth) {
    volatile char room[32];
    room[0] = 1;
    if (depth % 100 == 0) churn(400);
    if (depth > 0) deep(depth - 1);
    churn(400 + (size_t)room[0]);
}

/* Stack frames whose size no table can tell. */
static __attribute__((noinline)) void with_alloca(int turn) {
    char *room = alloca(16 + (size_t)turn % 3000);
    room[0] = 1;
    churn(500 + (size_t)*(volatile char *)room);
    if (turn % 7) with_alloca(turn - 1);
    churn(501);
}

/* Threads on the smallest stacks that there are, one after the other. */
static void *on_a_small_stack(void *turn) {
    with_alloca((int)(long)turn % 7);
    return NULL;
}

static void run_threads(int times) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN)) abort();
    for (int i = 0; i < times; i++) {
        if (pthread_create(&thread, &attributes, on_a_small_stack, (void *)(long)i)) abort();
        pthread_join(thread, NULL);
    }
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "coroutine";
    if (!strcmp(mode, "minimal")) run_threads(1), memset(&count, 0, sizeof count);
    mark("stacks begin");
    if (!strcmp(mode, "coroutine")) run_coroutines();
    if (!strcmp(mode, "altstack")) run_altstack();
    if (!strcmp(mode, "deep")) deep(5000);
    if (!strcmp(mode, "alloca"))
        for (int turn = 0; turn < TURNS; turn++) with_alloca(turn);
    if (!strcmp(mode, "minimal")) run_threads(TURNS);
    mark("stacks end");
    printf("{\"allocations\":%llu,\"reallocations\":%llu,\"deallocations\":%llu,\"requested_bytes\":%llu}\n",
           (unsigned long long)count.allocations, (unsigned long long)count.reallocations,
           (unsigned long long)count.deallocations, (unsigned long long)count.bytes);
    return 0;
}
