/* Ways to make another process, each from a program whose threads allocate meanwhile.
 * usage: processes WAY PROGRAM; `way` below names the ways, and "exec" is one in place.
 * PROGRAM is run with an exit code and a few frames by those that exec. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
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

/* No other thread may hold a lock of malloc: with _Fork nobody releases it in the child. */
static int by_raw_fork_alone(int number) {
    pid_t child = _Fork();
    if (child == 0) _exit(child_work(number));
    return status_of(child);
}

/* A child of a child, while this process waits for nothing but the first. */
static int by_two_forks(int number) {
    pid_t child = fork();
    if (child == 0) {
        child_work(number);
        pid_t grandchild = fork();
        if (grandchild == 0) exit(child_work(number + 20));
        _exit(status_of(grandchild));
    }
    return status_of(child);
}

static void *fork_and_work(void *number) {
    return (void *)(long)by_two_forks((int)(long)number);
}

/* The child's only thread is not the first one of its parent. */
static int by_fork_on_a_thread(int number) {
    pthread_t thread;
    void *status;
    pthread_create(&thread, NULL, fork_and_work, (void *)(long)number);
    pthread_join(thread, &status);
    return (int)(long)status;
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

/* The child of vfork runs in its parent's memory. */
static int by_vfork_exit(int number) {
    pid_t child = vfork();
    if (child == 0) _exit(10 + number);
    return status_of(child);
}

static int by_vfork_missing(int number) {
    char *argv[] = {"missing", NULL};
    pid_t child = vfork();
    if (child == 0) {
        execv("/there is/no such program", argv);
        execvp("no such program anywhere", argv);
        _exit(10 + number);
    }
    return status_of(child);
}

static int run_program(void *argv) {
    execv(program, argv);
    return 127;
}

/* As vfork, on a stack of its own: what posix_spawn and others' runtimes do. */
static int by_clone(int number) {
    static char stack[64 * 1024] __attribute__((aligned(16)));
    char code[8], *argv[4];
    snprintf(code, sizeof code, "%d", 10 + number);
    program_arguments(argv, code);
    return status_of(clone(run_program, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, argv));
}

/* Each of the exec functions in turn, after one that finds nothing. */
static void exec_by(int which, char *code) {
    char *argv[4], *bare[] = {"GAME_TEXT=bare", NULL}, *none[] = {NULL};
    program_arguments(argv, code);
    switch (which) {
    case 0: execl("/missing", "x", NULL); execl(program, program, code, "60", NULL); break;
    case 1: execlp("missing", "x", NULL); execlp(program, program, code, "60", NULL); break;
    case 2: execle("/missing", "x", NULL, bare); execle(program, program, code, "60", NULL, bare); break;
    case 3: execv("/missing", argv); execv(program, argv); break;
    case 4: execve("/missing", argv, bare); execve(program, argv, bare); break;
    case 5: execvp("missing", argv); execvp(program, argv); break;
    case 6: execvpe("missing", argv, bare); execvpe(program, argv, bare); break;
    case 7: fexecve(-1, argv, environ); fexecve(open(program, O_RDONLY | O_CLOEXEC), argv, none); break;
    case 8: execveat(-1, "missing", argv, environ, 0); execveat(AT_FDCWD, program, argv, bare, 0); break;
    default: execve(program, argv, NULL); break;
    }
}

static int by_exec_family(int number) {
    char code[8];
    snprintf(code, sizeof code, "%d", 10 + number);
    pid_t child = fork();
    if (child == 0) {
        free(malloc(100));
        exec_by(number % 10, code);
        _exit(127);
    }
    return status_of(child);
}

/* What the child does before it is the program: its output comes back through a file. */
static int by_spawn_with_actions(int number) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    char code[8], *argv[4], line[200] = "", *bare[] = {"GAME_TEXT=spawned", NULL};
    char name[] = "/tmp/processes-XXXXXX";
    sigset_t all;
    pid_t child;
    int file = mkstemp(name);
    snprintf(code, sizeof code, "%d", 10 + number);
    program_arguments(argv, code);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, file, 1);
    posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    posix_spawnattr_init(&attributes);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
    if (posix_spawnp(&child, program, &actions, &attributes, argv, bare)) abort();
    int status = status_of(child);
    if (pread(file, line, sizeof line - 1, 0) > 0) fputs(line, stdout);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    unlink(name);
    close(file);
    return status;
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
    if (!strcmp(name, "raw-fork-alone")) return by_raw_fork_alone;
    if (!strcmp(name, "two-forks")) return by_two_forks;
    if (!strcmp(name, "fork-on-a-thread")) return by_fork_on_a_thread;
    if (!strcmp(name, "vfork-exit")) return by_vfork_exit;
    if (!strcmp(name, "vfork-missing")) return by_vfork_missing;
    if (!strcmp(name, "clone")) return by_clone;
    if (!strcmp(name, "exec-family")) return by_exec_family;
    if (!strcmp(name, "spawn-with-actions")) return by_spawn_with_actions;
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
    int others = strcmp(argv[1], "raw-fork-alone") ? THREADS : 0;
    for (int i = 0; i < others; i++) pthread_create(&threads[i], NULL, busy, NULL);
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
    for (int i = 0; i < others; i++) pthread_join(threads[i], NULL);
    return 5;
}
