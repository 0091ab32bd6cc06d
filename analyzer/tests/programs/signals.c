/* Signal handlers that allocate and that jump away, at any instruction. Linked with
 * libbump, whose malloc allows both; glibc's would not.
 *
 * usage: signals timer|itimer|alternate|threads|nested|jump [handler runs]
 *   timer   a timer of 1 kHz whose handler allocates, beside a program that does;
 *   itimer  the same by setitimer;
 *   alternate  the same with a stack of the handler's own, with a closed page below it;
 *   threads the same, and whichever of four threads the kernel picks takes the signal;
 *   nested  the same at 20 kHz, and the handler is itself interrupted by another's;
 *   jump    the handler leaves by siglongjmp, whatever it interrupted.
 * Prints one JSON line of what had returned, and how many jumps there were: each may
 * have cut off one call more. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include "marks.h"

struct count { uint64_t allocations, reallocations, deallocations, bytes; };

/* Each context has counters of its own, so none is lost to an interruption. */
enum { MAIN, FAST, SLOW, CONTEXTS, OTHERS = 3 };
static volatile struct count counts[CONTEXTS];
static __thread volatile struct count *mine = counts;
static volatile struct count of_others[OTHERS][CONTEXTS];
static volatile sig_atomic_t runs, jumps, armed;
static sigjmp_buf back;

static void churn(int context, size_t size) {
    volatile struct count *c = &mine[context];
    char *volatile p = malloc(size);
    c->allocations++, c->bytes += size;
    p[0] = 1;
    char *volatile q = realloc(p, size * 2);
    c->reallocations++, c->bytes += size * 2;
    free(q);
    c->deallocations++;
    p = calloc(3, size);
    c->allocations++, c->bytes += size * 3;
    free(p);
    c->deallocations++;
}

static void on_timer(int number) {
    (void)number;
    churn(FAST, 24);
    runs++;
}

static void on_slow_timer(int number) {
    (void)number;
    for (int i = 0; i < 20; i++) churn(SLOW, 40);
}

static void on_jump(int number) {
    (void)number;
    churn(FAST, 24);
    runs++;
    if (!armed) return;
    armed = 0;
    jumps++;
    siglongjmp(back, 1);
}

static int flags = SA_RESTART;

/* Its overflow would be a crash. */
static void take_alternate_stack(void) {
    enum { PAGE = 4096, SIZE = 16 * 1024 };
    char *low = mmap(NULL, SIZE + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = low + PAGE, .ss_size = SIZE};
    if (low == MAP_FAILED || mprotect(low, PAGE, PROT_NONE) || sigaltstack(&stack, NULL)) abort();
    flags |= SA_ONSTACK;
}

static void handle(int number, void (*handler)(int)) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigaction(number, &action, NULL);
}

static timer_t start_timer(int number, long nanos) {
    timer_t timer;
    struct sigevent event;
    struct itimerspec every = {{0, nanos}, {0, nanos}};
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = number;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &every, NULL);
    return timer;
}

static void every_millisecond(suseconds_t micros) {
    struct itimerval every = {{0, micros}, {0, micros}};
    if (setitimer(ITIMER_REAL, &every, NULL)) abort();
}

/* Takes the signals that are still due, then stops asking. */
static void stop_timer(timer_t timer, int number) {
    timer_delete(timer);
    handle(number, SIG_IGN);
}

static volatile sig_atomic_t done;

static pthread_barrier_t counting;

static void *beside(void *counted) {
    mine = counted; /* from here on a handler may run on this thread */
    pthread_barrier_wait(&counting);
    while (!done)
        for (size_t size = 16; size < 400; size += 8) churn(MAIN, size);
    return NULL;
}

static void add(struct count *sum, volatile struct count *from) {
    for (int i = 0; i < CONTEXTS; i++) {
        sum->allocations += from[i].allocations;
        sum->reallocations += from[i].reallocations;
        sum->deallocations += from[i].deallocations;
        sum->bytes += from[i].bytes;
    }
}

static void print_counts(void) {
    struct count sum = {0, 0, 0, 0};
    add(&sum, counts);
    for (int i = 0; i < OTHERS; i++) add(&sum, of_others[i]);
    printf("{\"allocations\":%llu,\"reallocations\":%llu,\"deallocations\":%llu,"
           "\"requested_bytes\":%llu,\"runs\":%d,\"jumps\":%d}\n",
           (unsigned long long)sum.allocations, (unsigned long long)sum.reallocations,
           (unsigned long long)sum.deallocations, (unsigned long long)sum.bytes, (int)runs, (int)jumps);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "timer";
    int wanted = argc > 2 ? atoi(argv[2]) : 300;
    int nested = !strcmp(mode, "nested"), jump = !strcmp(mode, "jump");
    int itimer = !strcmp(mode, "itimer"), others = strcmp(mode, "threads") ? 0 : OTHERS;
    pthread_t threads[OTHERS];
    pthread_attr_t attributes;

    if (!strcmp(mode, "alternate")) take_alternate_stack();
    /* What a thread costs the C library is asked for before the count begins. */
    pthread_attr_init(&attributes);
    pthread_barrier_init(&counting, NULL, (unsigned)others + 1);
    for (int i = 0; i < others; i++) pthread_create(&threads[i], &attributes, beside, (void *)of_others[i]);
    pthread_barrier_wait(&counting);
    done = 1;
    for (int i = 0; i < others; i++) pthread_join(threads[i], NULL);
    memset((void *)of_others, 0, sizeof of_others);
    done = 0;

    mark("signals begin");
    for (int i = 0; i < others; i++) pthread_create(&threads[i], &attributes, beside, (void *)of_others[i]);
    pthread_barrier_wait(&counting);
    handle(SIGUSR1, jump ? on_jump : on_timer);
    handle(SIGUSR2, on_slow_timer);
    handle(SIGALRM, on_timer);
    timer_t fast = NULL, slow = NULL;
    if (itimer) every_millisecond(1000);
    else fast = start_timer(SIGUSR1, nested ? 50000 : jump ? 200000 : 1000000);
    if (nested) slow = start_timer(SIGUSR2, 1000000);
    sigsetjmp(back, 1);
    while (runs < wanted) {
        armed = jump;
        for (size_t size = 16; size < 400; size += 8) churn(MAIN, size);
        armed = 0;
    }
    if (itimer) every_millisecond(0);
    else stop_timer(fast, SIGUSR1);
    done = 1;
    for (int i = 0; i < others; i++) pthread_join(threads[i], NULL);
    if (nested) stop_timer(slow, SIGUSR2);
    mark("signals end");
    print_counts();
    return 0;
}
