/* Signal handlers that allocate and that jump away, at any instruction. Linked with
 * libbump, whose malloc allows both; glibc's would not.
 *
 * usage: signals timer|nested|jump [handler runs]
 *   timer   a timer of 1 kHz whose handler allocates, beside a program that does;
 *   nested  the same at 20 kHz, and the handler is itself interrupted by another's;
 *   jump    the handler leaves by siglongjmp, whatever it interrupted.
 * Prints one JSON line of what had returned, and how many jumps there were: each may
 * have cut off one call more. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include "marks.h"

struct count { uint64_t allocations, reallocations, deallocations, bytes; };

/* Each context has counters of its own, so none is lost to an interruption. */
enum { MAIN, FAST, SLOW, CONTEXTS };
static volatile struct count counts[CONTEXTS];
static volatile sig_atomic_t runs, jumps, armed;
static sigjmp_buf back;

static void churn(int context, size_t size) {
    volatile struct count *c = &counts[context];
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

static void handle(int number, void (*handler)(int)) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
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

/* Takes the signals that are still due, then stops asking. */
static void stop_timer(timer_t timer, int number) {
    timer_delete(timer);
    handle(number, SIG_IGN);
}

static void print_counts(void) {
    struct count sum = {0, 0, 0, 0};
    for (int i = 0; i < CONTEXTS; i++) {
        sum.allocations += counts[i].allocations;
        sum.reallocations += counts[i].reallocations;
        sum.deallocations += counts[i].deallocations;
        sum.bytes += counts[i].bytes;
    }
    printf("{\"allocations\":%llu,\"reallocations\":%llu,\"deallocations\":%llu,"
           "\"requested_bytes\":%llu,\"runs\":%d,\"jumps\":%d}\n",
           (unsigned long long)sum.allocations, (unsigned long long)sum.reallocations,
           (unsigned long long)sum.deallocations, (unsigned long long)sum.bytes, (int)runs, (int)jumps);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "timer";
    int wanted = argc > 2 ? atoi(argv[2]) : 300;
    int nested = !strcmp(mode, "nested"), jump = !strcmp(mode, "jump");

    mark("signals begin");
    handle(SIGUSR1, jump ? on_jump : on_timer);
    handle(SIGUSR2, on_slow_timer);
    timer_t fast = start_timer(SIGUSR1, nested ? 50000 : jump ? 200000 : 1000000);
    timer_t slow = fast;
    if (nested) slow = start_timer(SIGUSR2, 1000000);
    sigsetjmp(back, 1);
    while (runs < wanted) {
        armed = jump;
        for (size_t size = 16; size < 400; size += 8) churn(MAIN, size);
        armed = 0;
    }
    stop_timer(fast, SIGUSR1);
    if (nested) stop_timer(slow, SIGUSR2);
    mark("signals end");
    print_counts();
    return 0;
}
