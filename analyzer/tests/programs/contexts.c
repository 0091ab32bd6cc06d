/* Contexts through heapreel.h. What it holds at its end, it holds on purpose.
 *
 * usage: contexts nest|many|fork|signals
 *   nest     contexts within contexts, by name and by format, and carried to a thread;
 *   many N   so many contexts of different names, a block of 16 bytes in each;
 *   fork     a child that is forked within a context;
 *   signals  a handler that enters a context at any instruction.
 * Ends with 7. Prints how often the arguments of contexts were evaluated. */
#define _GNU_SOURCE
#include "../../../recorder/include/heapreel.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static void *kept[1 << 17];
static int count_of_kept;
static int evaluated;

static void keep(size_t bytes) {
    kept[count_of_kept++] = malloc(bytes);
}

static int number(int value) {
    evaluated++;
    return value;
}

static uint64_t carried;

static void *on_a_thread(void *argument) {
    (void)argument;
    keep(40); /* outside of any */
    uint64_t outer = HEAPREEL_CONTEXT_ENTER(carried);
    keep(3000);
    uint64_t rock = HEAPREEL_CONTEXT_BEGIN("system", "physics");
    keep(500);
    HEAPREEL_CONTEXT_END(rock);
    HEAPREEL_CONTEXT_LEAVE(outer);
    keep(60);
    return NULL;
}

static void rock(const char *name) {
    uint64_t outer = HEAPREEL_CONTEXT_BEGIN("asset", "%s", name);
    keep(2000);
    carried = HEAPREEL_CONTEXT_CURRENT();
    HEAPREEL_CONTEXT_END(outer);
}

static void long_name(void) {
    char text[702];
    memset(text, 'x', sizeof text);
    /* 255 characters of two bytes behind the first: a cut at 512 would halve the 256th. */
    for (int i = 1; i + 1 < 701; i += 2) memcpy(text + i, "\xc3\xa4", 2);
    text[701] = 0;
    uint64_t outer = HEAPREEL_CONTEXT_BEGIN("user", "%s%d", text, 1);
    keep(11);
    HEAPREEL_CONTEXT_END(outer);
}

static void nest(void) {
    keep(10);
    uint64_t outside = HEAPREEL_CONTEXT_BEGIN("level", "forest");
    keep(1000);
    rock("rock_07");
    /* The same by a format. */
    uint64_t level = HEAPREEL_CONTEXT_BEGIN("asset", "rock_%02d", number(7));
    keep(200);
    HEAPREEL_CONTEXT_END(level);
    rock("tree");
    rock("rock_07");
    char name[] = "rock_07";
    rock(name);
    HEAPREEL_CONTEXT_END(outside);
    keep(20);
    /* Its scope has ended. */
    pthread_t thread;
    pthread_create(&thread, NULL, on_a_thread, NULL);
    pthread_join(thread, NULL);
    long_name();
}

static void many(int count) {
    uint64_t outside = HEAPREEL_CONTEXT_BEGIN("level", "crowd");
    for (int i = 0; i < count; i++) {
        uint64_t level = HEAPREEL_CONTEXT_BEGIN("entity", "orc_%d", i);
        keep(16);
        HEAPREEL_CONTEXT_END(level);
    }
    HEAPREEL_CONTEXT_END(outside);
    keep(48);
}

static void forked(void) {
    uint64_t outside = HEAPREEL_CONTEXT_BEGIN("level", "forest");
    uint64_t level = HEAPREEL_CONTEXT_BEGIN("asset", "rock");
    uint64_t parents = HEAPREEL_CONTEXT_CURRENT();
    keep(100);
    pid_t child = fork();
    if (child == 0) {
        keep(5000); /* outside of any: the child has a recording of its own */
        uint64_t outer = HEAPREEL_CONTEXT_BEGIN("asset", "child's");
        keep(700);
        HEAPREEL_CONTEXT_END(outer);
        outer = HEAPREEL_CONTEXT_ENTER(parents);
        keep(6000);
        HEAPREEL_CONTEXT_LEAVE(outer);
    } else {
        waitpid(child, NULL, 0);
        keep(200);
    }
    HEAPREEL_CONTEXT_END(level);
    keep(300);
    HEAPREEL_CONTEXT_END(outside);
    keep(400);
    if (child == 0) exit(7);
}

static volatile sig_atomic_t ticks;

static void on_timer(int signal) {
    (void)signal;
    char name[] = "tick_0";
    name[5] = (char)('0' + ticks % 10);
    uint64_t outer = HEAPREEL_CONTEXT_BEGIN("system", "%s", name);
    HEAPREEL_CONTEXT_END(outer);
    ticks++;
}

static void signals(void) {
    struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 100}, {0, 100}};
    setitimer(ITIMER_REAL, &often, NULL);
    int rounds = 0;
    for (; ticks < 500 || rounds < 20000; rounds++) {
        uint64_t outer = HEAPREEL_CONTEXT_BEGIN("entity", "orc_%d", rounds % 3000);
        void *volatile block = malloc(32);
        free(block);
        HEAPREEL_CONTEXT_END(outer);
    }
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    keep(100);
    printf("{\"ticks\":%d,\"rounds\":%d}\n", (int)ticks, rounds);
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "";
    HEAPREEL_MARK("begin");
    if (!strcmp(mode, "nest")) nest();
    else if (!strcmp(mode, "many")) many(atoi(arguments[2]));
    else if (!strcmp(mode, "fork")) forked();
    else if (!strcmp(mode, "signals")) signals();
    HEAPREEL_MARK("end");
    if (strcmp(mode, "signals")) printf("{\"evaluated\":%d}\n", evaluated);
    return 7;
}
