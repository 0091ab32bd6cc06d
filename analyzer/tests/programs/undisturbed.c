/* Prints what a recorder might change of a process: the output must be the same without it.
 * usage: undisturbed state|close|unshare|errno|layout|first */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void churn(int times) {
    for (int i = 0; i < times; i++) {
        char *volatile p = malloc(16 + (size_t)i % 2000);
        p[0] = 1;
        p = realloc(p, 3000);
        free(p);
    }
}

static int entries_of(const char *folder) {
    int count = 0;
    DIR *open_folder = opendir(folder);
    while (readdir(open_folder)) count++;
    closedir(open_folder);
    return count - 2; /* the folder itself and the one above */
}

/* Descriptors, threads, signals, floating point, children. */
static void print_state(const char *when) {
    sigset_t mask, pending;
    int blocked = 0, handled = 0, waiting = 0;
    struct sigaction action;
    stack_t stack;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    sigpending(&pending);
    sigaltstack(NULL, &stack);
    for (int s = 1; s < NSIG; s++) {
        blocked += sigismember(&mask, s) == 1;
        waiting += sigismember(&pending, s) == 1;
        handled += sigaction(s, NULL, &action) == 0 && action.sa_handler != SIG_DFL;
    }
    printf("%s: %d descriptors, %d threads, %d blocked, %d pending, %d handled, alternate stack %d, rounding %d, "
           "exceptions %d, children %d\n",
           when, entries_of("/proc/self/fd"), entries_of("/proc/self/task"), blocked, waiting, handled,
           stack.ss_flags, fegetround(), fetestexcept(FE_ALL_EXCEPT), waitpid(-1, NULL, WNOHANG));
}

static void *state_of_thread(void *unused) {
    (void)unused;
    churn(1000);
    print_state("on a thread");
    return NULL;
}

static void state(void) {
    pthread_t thread;
    print_state("at first");
    churn(20000);
    print_state("after work");
    pthread_create(&thread, NULL, state_of_thread, NULL);
    pthread_join(thread, NULL);
    print_state("after a thread");
}

/* Daemons close every descriptor that they do not know; the next file gets the number. */
static void close_everything(void) {
    close_range(3, ~0u, 0);
    char name[] = "/tmp/undisturbed-XXXXXX";
    int file = mkstemp(name);
    unlink(name);
    churn(20000);
    for (int i = 0; i < 100; i++) {
        if (write(file, "line\n", 5) != 5) abort();
        churn(200);
    }
    off_t size = lseek(file, 0, SEEK_END);
    char text[600];
    ssize_t got = pread(file, text, sizeof text, 0);
    int intact = 0;
    for (int i = 0; i < 100; i++) intact += !memcmp(text + 5 * i, "line\n", 5);
    printf("descriptor %d, %ld bytes, read %ld, %d lines intact\n", file, (long)size, (long)got, intact);
    for (int fd = 3; fd < 200; fd++) dup2(1, fd); /* and takes all others */
    churn(20000);
    printf("all numbers taken\n");
}

/* Refused to a process with more than one thread. */
static void new_namespace(void) {
    churn(20000);
    int made = unshare(CLONE_NEWUSER);
    printf("unshare: %d %s\n", made, made ? strerror(errno) : "");
}

/* A call that succeeds leaves errno alone, as glibc's malloc and free do. */
static void keep_errno(void) {
    int changed = 0;
    for (int i = 0; i < 20000; i++) {
        errno = 77;
        churn(1);
        changed += errno != 77;
    }
    errno = 0;
    void *volatile huge = malloc((size_t)-1 / 2 - (size_t)(rand() % 16));
    printf("changed %d times, failure sets %d, gives %p\n", changed, errno, huge);
}

/* The first blocks of all, measured from where the heap begins. */
static void first_blocks(void) {
    enum { FIRST = 60 };
    static char *blocks[FIRST];
    for (int i = 0; i < FIRST; i++) blocks[i] = malloc(24 + (size_t)i * 37 % 700);
    printf("%lx", (unsigned long)blocks[0] & 0xfff);
    for (int i = 1; i < FIRST; i++) printf(" %ld", (long)(blocks[i] - blocks[i - 1]));
    puts("");
}

/* Where blocks lie among each other, and how large the allocator made them. */
static void layout(void) {
    enum { BLOCKS = 2000 };
    static char *blocks[BLOCKS];
    unsigned long usable = 0, distances = 0;
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(1 + (size_t)i * 7 % 900);
        usable += malloc_usable_size(blocks[i]);
        if (i) distances = distances * 31 + (unsigned long)(blocks[i] - blocks[i - 1]);
    }
    for (int i = 0; i < BLOCKS; i += 3) free(blocks[i]);
    for (int i = 0; i < BLOCKS; i += 3) {
        blocks[i] = aligned_alloc(64, 64 + (size_t)i * 5 % 700 / 64 * 64);
        if (i) distances = distances * 31 + (unsigned long)(blocks[i] - blocks[i - 1]);
    }
    printf("usable %lu, distances %lx\n", usable, distances);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "state";
    if (!strcmp(mode, "state")) state();
    if (!strcmp(mode, "close")) close_everything();
    if (!strcmp(mode, "unshare")) new_namespace();
    if (!strcmp(mode, "errno")) keep_errno();
    if (!strcmp(mode, "layout")) layout();
    if (!strcmp(mode, "first")) first_blocks();
    return 0;
}
