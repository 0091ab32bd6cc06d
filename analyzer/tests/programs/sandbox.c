/* A program that gives up what it may do, and goes on allocating on threads that were there
 * before and on new ones.
 *
 * usage: sandbox nothing|asks|harmless|replaced|deadly|denied|unseen|allowed|strict|clockless|private|limits|chroot|user
 *   asks     asks the kernel what filters it knows, by calls that it refuses;
 *   harmless a filter forbids what nobody here does; replaced then becomes another program;
 *   deadly   a filter kills whoever does what recorders do; then becomes another program;
 *   denied   a filter refuses what sandboxes of games and browsers refuse, with an error;
 *   unseen   the same, set past the C library;
 *   allowed  a filter kills whoever makes a system call that this program does not make;
 *   clockless the time stamp counter cannot be read (PR_SET_TSC);
 *   strict   only read, write, and the thread's end are left (SECCOMP_MODE_STRICT);
 *   private  nobody may look into the process (PR_SET_DUMPABLE);
 *   limits   no more files, no longer ones, no more processes;
 *   chroot, user   another root folder, another user: for root only.
 * Prints one JSON line of its calls of malloc. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "marks.h"

enum { THREADS = 3, STEPS = 20000, KEPT = 64 };
struct count { uint64_t allocations, reallocations, deallocations, bytes; };
static struct count sum;
static pthread_mutex_t sum_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t confined;

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    _exit(99);
}

static __attribute__((noinline)) void work(int steps, size_t most) {
    struct count c = {0, 0, 0, 0};
    char *kept[KEPT] = {NULL};
    for (int i = 0; i < steps; i++) {
        size_t size = 16 + (size_t)i * 7 % most;
        char **place = &kept[i * 5 % KEPT];
        if (*place) free(*place), c.deallocations++;
        *place = malloc(size);
        c.allocations++, c.bytes += size;
        if (i % 3) continue;
        *place = realloc(*place, size + 40);
        c.reallocations++, c.bytes += size + 40;
    }
    for (int i = 0; i < KEPT; i++)
        if (kept[i]) free(kept[i]), c.deallocations++;
    pthread_mutex_lock(&sum_lock);
    sum.allocations += c.allocations, sum.reallocations += c.reallocations;
    sum.deallocations += c.deallocations, sum.bytes += c.bytes;
    pthread_mutex_unlock(&sum_lock);
}

static void *worker(void *unused) {
    work(10, 3000); /* not counted: the sum is cleared */
    pthread_barrier_wait(&confined);
    pthread_barrier_wait(&confined);
    work(STEPS, 3000);
    return unused;
}

/* Filters. The number of the system call comes first (seccomp_data). */
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF_EQUAL(value, then, otherwise) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, then, otherwise)
#define IF_BIT(bit, then, otherwise) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bit, then, otherwise)
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)
#define ON(call, what) IF_EQUAL(__NR_##call, 0, 1), RETURN(what)
#define REFUSED (SECCOMP_RET_ERRNO | EPERM)
#define NO_CALL (SECCOMP_RET_ERRNO | ENOSYS)

static void filter(struct sock_filter *code, size_t length, int unseen) {
    struct sock_fprog program = {(unsigned short)length, code};
    long result = SYS_seccomp;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) fail("no_new_privs");
    if (unseen)
        __asm__ volatile("syscall" : "+a"(result) : "D"(SECCOMP_SET_MODE_FILTER), "S"(SECCOMP_FILTER_FLAG_TSYNC),
                         "d"(&program) : "rcx", "r11", "memory");
    else
        result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
    if (result) fail("seccomp");
}

static void deny(int unseen) {
    struct sock_filter code[] = {
        LOAD(nr),
        ON(open, REFUSED), ON(openat, REFUSED), ON(creat, REFUSED), ON(rename, REFUSED), ON(unlink, REFUSED),
        ON(execve, REFUSED), ON(execveat, REFUSED), ON(fork, REFUSED), ON(vfork, REFUSED),
        ON(socket, REFUSED), ON(ptrace, REFUSED), ON(process_vm_readv, REFUSED), ON(kill, REFUSED),
        ON(tgkill, REFUSED), ON(tkill, REFUSED), ON(getrusage, REFUSED), ON(prctl, REFUSED),
        ON(getpid, REFUSED), ON(gettid, REFUSED),
        ON(getrandom, REFUSED), ON(nanosleep, REFUSED), ON(clock_nanosleep, REFUSED), ON(sched_yield, REFUSED),
        IF_EQUAL(__NR_madvise, 0, 4), LOAD(args[2]), IF_EQUAL(MADV_DONTNEED, 0, 1), RETURN(SECCOMP_RET_ALLOW),
        RETURN(REFUSED),
        IF_EQUAL(__NR_mmap, 0, 4), LOAD(args[2]), IF_BIT(PROT_EXEC, 0, 1), RETURN(REFUSED),
        RETURN(SECCOMP_RET_ALLOW),
        RETURN(SECCOMP_RET_ALLOW),
    };
    filter(code, sizeof code / sizeof *code, unseen);
    if (open("/proc/self/maps", O_RDONLY) >= 0 || errno != EPERM) fail("open is not refused");
}

/* Kills whoever does what this program never does and the recorder does. */
static void deadly(void) {
    struct sock_filter code[] = {
        LOAD(nr),
        ON(rename, SECCOMP_RET_KILL_PROCESS), ON(tgkill, SECCOMP_RET_KILL_PROCESS), ON(getrusage, SECCOMP_RET_KILL_PROCESS),
        ON(mknod, SECCOMP_RET_KILL_PROCESS), ON(mknodat, SECCOMP_RET_KILL_PROCESS), RETURN(SECCOMP_RET_ALLOW),
    };
    filter(code, sizeof code / sizeof *code, 0);
}

static void harmless(void) {
    struct sock_filter code[] = {
        LOAD(nr), ON(socket, REFUSED), ON(ptrace, SECCOMP_RET_TRAP), ON(mount, SECCOMP_RET_KILL_PROCESS), RETURN(SECCOMP_RET_ALLOW),
    };
    filter(code, sizeof code / sizeof *code, 0);
}

/* As libseccomp and browsers ask. */
static void ask(void) {
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL) == 0 || errno != EINVAL) fail("strict with flags");
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) == 0 || errno != EFAULT) fail("no filter");
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, 1L) == 0 || errno != EFAULT) fail("an address of nothing");
    struct sock_fprog nowhere = {9, (struct sock_filter *)16};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &nowhere) == 0 || errno != EFAULT) fail("a filter of nothing");
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) == 0 || errno != EFAULT) fail("no filter by prctl");
}

/* What a program needs that allocates, writes, and makes threads: no more. */
static void allow(void) {
    struct sock_filter code[] = {
        LOAD(nr),
        ON(write, SECCOMP_RET_ALLOW), ON(mmap, SECCOMP_RET_ALLOW), ON(munmap, SECCOMP_RET_ALLOW),
        ON(mprotect, SECCOMP_RET_ALLOW), ON(mremap, SECCOMP_RET_ALLOW), ON(brk, SECCOMP_RET_ALLOW),
        ON(futex, SECCOMP_RET_ALLOW), ON(rt_sigprocmask, SECCOMP_RET_ALLOW),
        ON(clone3, NO_CALL), ON(clone, SECCOMP_RET_ALLOW), ON(rseq, SECCOMP_RET_ALLOW),
        ON(set_robust_list, SECCOMP_RET_ALLOW), ON(exit, SECCOMP_RET_ALLOW), ON(exit_group, SECCOMP_RET_ALLOW),
        ON(wait4, SECCOMP_RET_ALLOW), ON(openat, REFUSED), ON(sched_getaffinity, SECCOMP_RET_ALLOW), /* malloc counts processors */
        IF_EQUAL(__NR_madvise, 0, 3), LOAD(args[2]), IF_EQUAL(MADV_DONTNEED, 0, 1), RETURN(SECCOMP_RET_ALLOW),
        RETURN(SECCOMP_RET_KILL_PROCESS),
    };
    filter(code, sizeof code / sizeof *code, 0);
}

/* Nothing but write is left: no exit_group either, and no memory that is not there yet. */
static void strict(void) {
    char text[200];
    void *room = malloc(8 << 20);
    free(room);
    work(2000, 500);
    memset(&sum, 0, sizeof sum);
    mark("sandbox begin");
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) fail("strict");
    work(10 * STEPS, 500);
    mark("sandbox end");
    int length = snprintf(text, sizeof text,
                          "{\"allocations\":%llu,\"reallocations\":%llu,\"deallocations\":%llu,\"requested_bytes\":%llu}\n",
                          (unsigned long long)sum.allocations, (unsigned long long)sum.reallocations,
                          (unsigned long long)sum.deallocations, (unsigned long long)sum.bytes);
    if (write(1, text, (size_t)length) != length) syscall(SYS_exit, 98);
    syscall(SYS_exit, 7);
}

static void limit(int what, rlim_t most) {
    struct rlimit limit = {most, most};
    if (setrlimit(what, &limit)) fail("setrlimit");
}

static void limits(void) {
    limit(RLIMIT_NOFILE, 0);
    limit(RLIMIT_FSIZE, 0);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_MEMLOCK, 0);
    limit(RLIMIT_SIGPENDING, 0);
}

static void change_root(void) {
    char folder[] = "/tmp/sandbox-XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) || rmdir(folder) || chroot(".")) fail("chroot");
}

static int is_one_of(const char *mode, const char *modes) {
    const char *at = strstr(modes, mode);
    return at && (at[strlen(mode)] == ' ' || !at[strlen(mode)]);
}

/* A process of its own goes on in there, too. */
static void with_child(void) {
    pid_t child = fork();
    if (child == 0) {
        work(200, 500);
        _exit(11);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child) fail("fork");
    printf("child ended with %d\n", WEXITSTATUS(status));
}

static void confine(const char *mode) {
    if (!strcmp(mode, "asks")) ask();
    if (is_one_of(mode, "harmless replaced")) harmless();
    if (!strcmp(mode, "deadly")) deadly();
    if (!strcmp(mode, "clockless") && prctl(PR_SET_TSC, PR_TSC_SIGSEGV)) fail("clockless");
    if (!strcmp(mode, "denied")) deny(0);
    if (!strcmp(mode, "unseen")) deny(1);
    if (!strcmp(mode, "allowed")) allow();
    if (!strcmp(mode, "private") && prctl(PR_SET_DUMPABLE, 0)) fail("dumpable");
    if (!strcmp(mode, "limits")) limits();
    if (!strcmp(mode, "chroot")) change_root();
    if (!strcmp(mode, "user") && (setgid(65534) || setuid(65534))) fail("setuid");
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "nothing";
    pthread_t threads[THREADS], later[THREADS];
    setvbuf(stdout, NULL, _IONBF, 0);
    if (!strcmp(mode, "strict")) strict();
    pthread_barrier_init(&confined, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, worker, NULL);
    pthread_barrier_wait(&confined);
    memset(&sum, 0, sizeof sum);
    mark("sandbox begin");
    confine(mode);
    pthread_barrier_wait(&confined);
    work(STEPS, 3000);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    mark("sandbox end");
    struct count counted = sum;
    pthread_barrier_init(&confined, NULL, 1);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&later[i], NULL, worker, NULL)) fail("pthread_create");
    for (int i = 0; i < THREADS; i++) pthread_join(later[i], NULL);
    if (is_one_of(mode, "asks harmless deadly denied allowed private chroot user")) with_child();
    if (is_one_of(mode, "replaced deadly")) {
        execv("/proc/self/exe", (char *[]){argv[0], "nothing", NULL});
        fail("exec");
    }
    printf("{\"allocations\":%llu,\"reallocations\":%llu,\"deallocations\":%llu,\"requested_bytes\":%llu}\n",
           (unsigned long long)counted.allocations, (unsigned long long)counted.reallocations,
           (unsigned long long)counted.deallocations, (unsigned long long)counted.bytes);
    return 7;
}
