/* How far below its caller a call of malloc, realloc or free writes. The stack below is
 * painted before each call and looked at after it. Bound at once (-z now): the loader would
 * otherwise look functions up on this stack.
 *
 * usage: painted coroutine|thread|child, on a stack of 16 KiB above a closed page, on a
 * thread's own, or on the first again in the child of a fork.
 * Prints one JSON line of bytes: in a thread's first calls, in calls from places that were not
 * met before, in 99 of 100 calls of which nothing is new, and in all of those. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { PAGE = 4096, STACK = 16 * 1024, RANGE = 10 * 1024, PAINT = 0xA5, ROUNDS = 4000, WAYS = 256, DEPTH = 8 };

/* What `paint` leaves alone, since it stands there itself: less than any call needs. */
enum { KEPT = 64 };

static long first, unmet, calls_of_depth[RANGE];

static __attribute__((noinline)) void paint(void) {
    char *here = __builtin_frame_address(0);
    for (volatile char *p = here - RANGE; p < here - KEPT; p++) *p = (char)PAINT;
}

static __attribute__((noinline)) long written(void) {
    char *here = __builtin_frame_address(0);
    volatile char *p = here - RANGE;
    while (p < here && *p == (char)PAINT) p++;
    return here - p;
}

static void at_least(long *most, long depth) {
    if (depth > *most) *most = depth;
}

static long deepest_of_three_calls(void) {
    long most = 0;
    char *volatile p;
    paint();
    p = malloc(24);
    at_least(&most, written());
    paint();
    p = realloc(p, 48);
    at_least(&most, written());
    paint();
    free(p);
    at_least(&most, written());
    return most;
}

/* Each way through these two is a stack of its own. */
static void right(unsigned way, int depth);
static __attribute__((noinline)) void left(unsigned way, int depth) {
    right(way, depth);
    __asm__ volatile(""); /* no jump instead of the call */
}
static __attribute__((noinline)) void right(unsigned way, int depth) {
    if (depth == 0) at_least(&unmet, deepest_of_three_calls());
    else if (way & 1) left(way >> 1, depth - 1);
    else right(way >> 1, depth - 1);
    __asm__ volatile("");
}

static void measure(void) {
    at_least(&first, deepest_of_three_calls());
    for (unsigned way = 0; way < WAYS; way++) right(way, DEPTH);
    for (int i = 0; i < ROUNDS; i++) calls_of_depth[deepest_of_three_calls()]++;
}

static ucontext_t outside, inside;
static int in_a_child;

/* The parent takes over what the child has found. */
static void measure_in_a_child(void) {
    int found[2];
    if (pipe(found)) abort();
    pid_t child = _Fork();
    if (child == 0) {
        measure();
        _exit(write(found[1], &first, sizeof first) != sizeof first);
    }
    measure();
    if (read(found[0], &first, sizeof first) != sizeof first) abort();
    waitpid(child, NULL, 0);
}

static void coroutine(void) {
    if (in_a_child) measure_in_a_child();
    else measure();
    swapcontext(&inside, &outside);
}

static void *on_a_coroutine(void *unused) {
    char *low = mmap(NULL, STACK + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (low == MAP_FAILED || mprotect(low, PAGE, PROT_NONE)) abort();
    getcontext(&inside);
    inside.uc_stack.ss_sp = low + PAGE;
    inside.uc_stack.ss_size = STACK;
    inside.uc_link = NULL;
    makecontext(&inside, coroutine, 0);
    swapcontext(&outside, &inside);
    return unused;
}

static void *on_its_own(void *unused) {
    measure();
    return unused;
}

int main(int argc, char **argv) {
    pthread_t thread;
    int own = argc > 1 && !strcmp(argv[1], "thread");
    in_a_child = argc > 1 && !strcmp(argv[1], "child");
    if (pthread_create(&thread, NULL, own ? on_its_own : on_a_coroutine, NULL)) return 2;
    pthread_join(thread, NULL);
    long seen = 0, usual = 0, most = 0;
    for (long depth = 0; depth < RANGE; depth++) {
        if (!calls_of_depth[depth]) continue;
        if (seen * 100 < ROUNDS * 99L) usual = depth;
        seen += calls_of_depth[depth];
        most = depth;
    }
    printf("{\"first\":%ld,\"unmet\":%ld,\"usual\":%ld,\"most\":%ld}\n", first, unmet, usual, most);
    return 0;
}
