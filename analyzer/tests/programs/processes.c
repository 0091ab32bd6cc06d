/* Ways to make another process, each from a program whose threads allocate meanwhile.
 * usage: processes fork|fork-exec|vfork|spawn|exec|system|popen|raw-fork PROGRAM
 * PROGRAM is run with an exit code and a few frames by those that exec. */
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, CHILDREN = 12 };

extern char **environ;
static atomic_int stop;
static char *program;

static void *busy(void *unused) {
    (void)unused;
    unsigned i = 0;
    while (!atomic_load(&stop)) {
        char *volatile p = malloc(16 + i++ % 500);
        free(p);
    }
    return NULL;
}

/* What a child may do after a fork of a program with threads: glibc keeps malloc usable. */
static int child_work(int number) {
    void *blocks[200];
    for (int i = 0; i < 200; i++) blocks[i] = malloc(32 + (size_t)(i * number) % 300);
    for (int i = 0; i < 200; i += 2) free(blocks[i]);
    return 10 + number;
}

static int status_of(pid_t child) {
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child) abort();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void program_arguments(char **argv, char *code) {
    argv[0] = program;
    argv[1] = code;
    argv[2] = "60";
    argv[3] = NULL;
}

static int by_fork(int number) {
    pid_t child = fork();
    if (child == 0) _exit(child_work(number));
    return status_of(child);
}

static int by_raw_fork(int number) {
    pid_t child = _Fork(); /* runs no atfork handler */
    if (child == 0) _exit(10 + number);
    return status_of(child);
}

static int by_fork_exec(int number) {
    char code[8], *argv[4];
    snprintf(code, sizeof code, "%d", 10 + number);
    program_arguments(argv, code);
    pid_t child = fork();
    if (child == 0) {
        free(malloc(100));
        execv(program, argv);
        _exit(127);
    }
    return status_of(child);
}

static int by_vfork(int number) {
    char code[8], *argv[4];
    snprintf(code, sizeof code, "%d", 10 + number);
    program_arguments(argv, code);
    pid_t child = vfork();
    if (child == 0) {
        execv(program, argv);
        _exit(127);
    }
    return status_of(child);
}

static int by_spawn(int number) {
    char code[8], *argv[4];
    pid_t child;
    snprintf(code, sizeof code, "%d", 10 + number);
    program_arguments(argv, code);
    if (posix_spawn(&child, program, NULL, NULL, argv, environ)) abort();
    return status_of(child);
}

static int by_system(int number) {
    char command[4200];
    snprintf(command, sizeof command, "'%s' %d 60", program, 10 + number);
    int status = system(command);
    return WEXITSTATUS(status);
}

static int by_popen(int number) {
    char command[4200], line[200];
    snprintf(command, sizeof command, "'%s' %d 60 | sed s/game/piped/; exit %d", program, 10 + number, 10 + number);
    FILE *pipe = popen(command, "r");
    while (fgets(line, sizeof line, pipe)) fputs(line, stdout);
    return WEXITSTATUS(pclose(pipe));
}

static int (*way(const char *name))(int) {
    if (!strcmp(name, "fork")) return by_fork;
    if (!strcmp(name, "raw-fork")) return by_raw_fork;
    if (!strcmp(name, "fork-exec")) return by_fork_exec;
    if (!strcmp(name, "vfork")) return by_vfork;
    if (!strcmp(name, "spawn")) return by_spawn;
    if (!strcmp(name, "system")) return by_system;
    if (!strcmp(name, "popen")) return by_popen;
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    program = argv[2];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, busy, NULL);
    setvbuf(stdout, NULL, _IOLBF, 0); /* nothing buffered is ever inherited */
    if (!strcmp(argv[1], "exec")) {
        char *arguments[] = {program, "23", "60", NULL};
        puts("before exec");
        execv(program, arguments); /* with the other threads running */
        return 127;
    }
    int (*make)(int) = way(argv[1]);
    if (!make) return 2;
    for (int i = 0; i < CHILDREN; i++) printf("child %d ended with %d\n", i, make(i));
    atomic_store(&stop, 1);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    return 5;
}
