/* Runs a program under limits: a shell cannot set all of these.
 * usage: limits [as=BYTES] [fsize=BYTES] [nofile=N] [threads=0] -- PROGRAM ARGUMENTS */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static int set(int resource, const char *value) {
    rlim_t bytes = strtoull(value, NULL, 10);
    struct rlimit limit = {bytes, bytes};
    return setrlimit(resource, &limit);
}

/* As where the system has no thread left: clone of a thread fails with EAGAIN. clone3, whose
 * flags a filter cannot see, is said not to exist; the C library then uses clone. */
static int allow_no_threads(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int apply(const char *text) {
    if (!strncmp(text, "as=", 3)) return set(RLIMIT_AS, text + 3);
    if (!strncmp(text, "fsize=", 6)) return set(RLIMIT_FSIZE, text + 6);
    if (!strncmp(text, "nofile=", 7)) return set(RLIMIT_NOFILE, text + 7);
    if (!strcmp(text, "threads=0")) return allow_no_threads();
    return 1;
}

int main(int argc, char **argv) {
    /* A program that asks no library for memory would be told to have an allocator inside. */
    free(malloc(1));
    int at = 1;
    for (; at < argc && strcmp(argv[at], "--"); at++)
        if (apply(argv[at])) {
            perror(argv[at]);
            return 99;
        }
    if (at + 1 >= argc) return 99;
    execvp(argv[at + 1], argv + at + 1);
    perror(argv[at + 1]);
    return 99;
}
