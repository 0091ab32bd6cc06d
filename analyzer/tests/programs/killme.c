/* Works until it is killed, and says in a shared page which calls had returned.
 *
 * usage: killme PAGE [seed]; PAGE is a file, mapped shared, so what is stored there
 * outlives the process. Little-endian 64-bit numbers: the process id at 0 (once all
 * threads work), then for thread t at 4096 + 128 * t: allocations, reallocations,
 * deallocations, requested bytes. A number is stored after the call has returned, so
 * the true count is at most one call per thread ahead of it.
 *
 * Six threads work throughout; the main thread starts and joins two more again and
 * again. As in tally.h, their stacks come from glibc's cache, so that nothing but
 * the counted calls allocates after the mark "work begin". */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "marks.h"

enum { STEADY = 6, COMING_AND_GOING = 2, THREADS = STEADY + COMING_AND_GOING };
enum { PAGE_SIZE = 64 * 1024, FIRST = 4096, STRIDE = 128, SLOTS = 128, LIFE = 300 };

struct counters { _Atomic uint64_t allocations, reallocations, deallocations, requested_bytes; };
struct block { size_t size; };
struct job { struct counters *counters; uint64_t seed; int steps; };

static char *page;
static _Atomic(struct block *) exchange[SLOTS];
static pthread_barrier_t begin, both_alive;

static uint32_t next_random(uint64_t *s) {
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return (uint32_t)(*s >> 16);
}

static size_t random_size(uint64_t *rng) {
    return 16 + next_random(rng) % (next_random(rng) % 500 ? 600 : 200000);
}

/* One writer each, so no read-modify-write is needed. */
static void bump(_Atomic uint64_t *counter, uint64_t by) {
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by,
                          memory_order_release);
}

static struct block *make(struct counters *c, uint64_t *rng) {
    size_t size = random_size(rng);
    struct block *b = next_random(rng) % 4 ? malloc(size) : calloc(1, size);
    bump(&c->allocations, 1);
    bump(&c->requested_bytes, size);
    b->size = size;
    return b;
}

static struct block *resize(struct counters *c, struct block *b, uint64_t *rng) {
    size_t size = random_size(rng);
    b = realloc(b, size);
    bump(&c->reallocations, 1);
    bump(&c->requested_bytes, size);
    b->size = size;
    return b;
}

static void drop(struct counters *c, struct block *b) {
    free(b);
    bump(&c->deallocations, 1);
}

static void *work(void *arg) {
    struct job job = *(struct job *)arg;
    if (job.steps < 0) pthread_barrier_wait(&begin);
    if (job.steps == 0) pthread_barrier_wait(&both_alive); /* so that each has a stack of its own */
    for (int i = 0; i != job.steps; i++) {
        struct block *mine = make(job.counters, &job.seed);
        if (next_random(&job.seed) % 3 == 0) mine = resize(job.counters, mine, &job.seed);
        struct block *other = atomic_exchange(&exchange[next_random(&job.seed) % SLOTS], mine);
        if (!other) continue;
        if (next_random(&job.seed) % 5 == 0) other = resize(job.counters, other, &job.seed);
        drop(job.counters, other);
    }
    return NULL;
}

static void start(pthread_t *thread, struct job *job) {
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 * 1024);
    if (pthread_create(thread, &attr, work, job)) abort();
}

static struct counters *counters_of(int thread) {
    return (struct counters *)(page + FIRST + STRIDE * thread);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, PAGE_SIZE)) return 2;
    page = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) return 2;

    pthread_t threads[THREADS];
    struct job jobs[THREADS];
    pthread_barrier_init(&begin, NULL, STEADY + 1);
    pthread_barrier_init(&both_alive, NULL, COMING_AND_GOING);
    for (int i = 0; i < THREADS; i++) {
        jobs[i].counters = counters_of(i);
        jobs[i].seed = (seed + 1) * 0x9E3779B97F4A7C15ull + (uint64_t)(i + 1) * 0xBF58476D1CE4E5B9ull;
        jobs[i].steps = i < STEADY ? -1 : 0;
        start(&threads[i], &jobs[i]);
    }
    for (int i = STEADY; i < THREADS; i++) pthread_join(threads[i], NULL);

    mark("work begin");
    atomic_store((_Atomic uint64_t *)page, (uint64_t)getpid());
    pthread_barrier_wait(&begin);
    for (;;) {
        for (int i = STEADY; i < THREADS; i++) {
            jobs[i].steps = LIFE;
            jobs[i].seed += 0x9E3779B97F4A7C15ull;
            start(&threads[i], &jobs[i]);
        }
        for (int i = STEADY; i < THREADS; i++) pthread_join(threads[i], NULL);
    }
}
