/* Allocates in stretches that a test steers, counts its calls, and says what it sees of its
 * own limits: all of it must be the same whether or not somebody records.
 *
 * usage: resources [stretches] [calls per thread and stretch] [threads] [exit code]
 *
 * Before each stretch it prints "at N" and reads a line; where nobody writes to
 * it, it finds the end of its input and goes on. Threads are started before the mark "work
 * begin"; behind it nothing but the counted calls allocates: output is written directly. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "marks.h"

enum { MOST_THREADS = 16, SLOTS = 128 };

struct block { size_t size; };
struct count { uint64_t allocations, reallocations, deallocations, requested_bytes, failed; };

static _Atomic(struct block *) exchange[SLOTS];
static struct count counts[MOST_THREADS];
static pthread_barrier_t begin, end;
static int stretches = 3, calls = 20000, threads = 4;

static uint32_t next_random(uint64_t *s) {
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return (uint32_t)(*s >> 16);
}

static void say(const char *text) {
    size_t length = strlen(text);
    while (length) {
        ssize_t written = write(1, text, length);
        if (written < 0 && errno != EINTR) return;
        if (written > 0) text += written, length -= (size_t)written;
    }
}

static struct block *make(struct count *c, uint64_t *rng) {
    size_t size = 16 + next_random(rng) % 400;
    struct block *b = next_random(rng) % 4 ? malloc(size) : calloc(1, size);
    if (!b) {
        c->failed++;
        return NULL;
    }
    c->allocations++;
    c->requested_bytes += size;
    b->size = size;
    return b;
}

static struct block *resize(struct count *c, struct block *b, uint64_t *rng) {
    size_t size = 16 + next_random(rng) % 800;
    struct block *moved = realloc(b, size);
    if (!moved) {
        c->failed++;
        return b;
    }
    c->reallocations++;
    c->requested_bytes += size;
    moved->size = size;
    return moved;
}

static void drop(struct count *c, struct block *b) {
    free(b);
    c->deallocations++;
}

static void stretch(int thread, uint64_t *rng) {
    struct count *c = &counts[thread];
    for (int i = 0; i < calls; i++) {
        struct block *mine = make(c, rng);
        if (mine && next_random(rng) % 5 == 0) mine = resize(c, mine, rng);
        struct block *other = atomic_exchange(&exchange[next_random(rng) % SLOTS], mine);
        if (other) drop(c, other);
    }
}

static void *work(void *arg) {
    int thread = (int)(intptr_t)arg;
    uint64_t rng = (uint64_t)(thread + 1) * 0x9E3779B97F4A7C15ull;
    for (int s = 0; s < stretches; s++) {
        pthread_barrier_wait(&begin);
        stretch(thread, &rng);
        pthread_barrier_wait(&end);
    }
    return NULL;
}

static void wait_for_line(int number) {
    char text[32], byte;
    snprintf(text, sizeof text, "at %d\n", number);
    say(text);
    for (;;) {
        ssize_t got = read(0, &byte, 1);
        if (got == 0 || (got > 0 && byte == '\n') || (got < 0 && errno != EINTR)) return;
    }
}

static void play(void) {
    if (threads == 1) {
        uint64_t rng = 0x9E3779B97F4A7C15ull;
        mark("work begin");
        for (int s = 0; s < stretches; s++) {
            wait_for_line(s);
            stretch(0, &rng);
        }
        return;
    }
    pthread_t ids[MOST_THREADS];
    pthread_barrier_init(&begin, NULL, (unsigned)threads + 1);
    pthread_barrier_init(&end, NULL, (unsigned)threads + 1);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, work, (void *)(intptr_t)i)) abort();
    mark("work begin");
    for (int s = 0; s < stretches; s++) {
        wait_for_line(s);
        pthread_barrier_wait(&begin);
        pthread_barrier_wait(&end);
    }
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
}

static void print_count(void) {
    struct count sum = {0};
    char text[400];
    for (int i = 0; i < threads; i++) {
        sum.allocations += counts[i].allocations;
        sum.reallocations += counts[i].reallocations;
        sum.deallocations += counts[i].deallocations;
        sum.requested_bytes += counts[i].requested_bytes;
        sum.failed += counts[i].failed;
    }
    snprintf(text, sizeof text,
             "{\"allocations\":%llu,\"reallocations\":%llu,\"deallocations\":%llu,"
             "\"requested_bytes\":%llu,\"failed_allocations\":%llu}\n",
             (unsigned long long)sum.allocations, (unsigned long long)sum.reallocations,
             (unsigned long long)sum.deallocations, (unsigned long long)sum.requested_bytes,
             (unsigned long long)sum.failed);
    say(text);
}

static unsigned long long limit(int resource) {
    struct rlimit l;
    return getrlimit(resource, &l) ? 0 : (unsigned long long)l.rlim_cur;
}

/* Limits, and the descriptors that are open below 64. */
static void print_view(void) {
    int open = 0;
    for (int i = 0; i < 64; i++) open += fcntl(i, F_GETFD) >= 0;
    char text[300];
    snprintf(text, sizeof text, "limits: as %llu fsize %llu nofile %llu nproc %llu stack %llu, %d open\n",
             limit(RLIMIT_AS), limit(RLIMIT_FSIZE), limit(RLIMIT_NOFILE), limit(RLIMIT_NPROC),
             limit(RLIMIT_STACK), open);
    say(text);
}

int main(int argc, char **argv) {
    if (argc > 1) stretches = atoi(argv[1]);
    if (argc > 2) calls = atoi(argv[2]);
    if (argc > 3) threads = atoi(argv[3]);
    if (threads < 1 || threads > MOST_THREADS) return 2;
    play();
    print_count();
    print_view();
    return argc > 4 ? atoi(argv[4]) : 7;
}
