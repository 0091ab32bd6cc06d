/* Eight threads allocate, resize and free, hand blocks to one another, end and come
 * back, and count every call: the trace must show the same numbers.
 * usage: tally [rounds] [steps per thread and round] [seed]; prints one JSON line. */
#include <malloc.h>
#include <stdatomic.h>
#include <string.h>
#include "tally.h"

enum entry { MALLOC, CALLOC, REALLOC, REALLOCARRAY, ALIGNED_ALLOC, MEMALIGN, POSIX_MEMALIGN, FREE, ENTRIES };
static const char *const NAMES[ENTRIES] = {
    "malloc", "calloc", "realloc", "reallocarray", "aligned_alloc", "memalign", "posix_memalign", "free"};

/* Every block but the empty ones begins with its size. */
struct block { size_t size; };

enum { SLOTS = 256 };
static _Atomic(struct block *) exchange[SLOTS];
static int steps = 2000;
static pthread_key_t keepsake;
static _Atomic uint64_t keepsakes_freed;

static struct block *label(void *p, size_t size) {
    if (!p) abort();
    ((struct block *)p)->size = size;
    return p;
}

static struct block *make(struct tally *t, uint64_t *rng) {
    size_t size = random_size(rng), align = (size_t)16 << next_random(rng) % 9;
    enum entry e = MALLOC;
    void *p = NULL;
    switch (next_random(rng) % 12) {
    case 0: e = CALLOC; p = calloc(1, size); break;
    case 1: e = REALLOC; p = realloc(NULL, size); break;
    case 2: e = ALIGNED_ALLOC; p = aligned_alloc(align, size); break;
    case 3: e = MEMALIGN; p = memalign(align, size); break;
    case 4: e = POSIX_MEMALIGN; if (posix_memalign(&p, align, size)) abort(); break;
    case 5: e = REALLOCARRAY; size &= ~(size_t)7; p = reallocarray(NULL, size / 8, 8); break;
    case 6: e = CALLOC; size &= ~(size_t)7; p = calloc(size / 8, 8); break;
    default: p = malloc(size); break;
    }
    t->allocations++;
    t->entries[e]++;
    t->requested_bytes += size;
    return label(p, size);
}

static void drop(struct tally *t, struct block *b, uint64_t *rng) {
    if (next_random(rng) % 16 == 0) {
        void *empty = realloc(b, 0);
        t->entries[REALLOC]++;
        if (!empty) { /* glibc: a deallocation */
            t->deallocations++;
            return;
        }
        t->reallocations++; /* others: a block of no bytes */
        b = empty;
    }
    free(b);
    t->deallocations++;
    t->entries[FREE]++;
}

static struct block *resize(struct tally *t, struct block *b, uint64_t *rng) {
    size_t old = b->size, size = random_size(rng);
    switch (next_random(rng) % 4) {
    case 0: size = old; break;                 /* in place */
    case 1: size = old / 2 + 16; break;        /* shrinks */
    case 2: size = old + 1 + old / 4; break;   /* grows, moves or not */
    default: break;
    }
    int array = next_random(rng) % 8 == 0;
    void *p = array ? reallocarray(b, size, 1) : realloc(b, size);
    t->reallocations++;
    t->entries[array ? REALLOCARRAY : REALLOC]++;
    t->requested_bytes += size;
    return label(p, size);
}

/* Calls that fail leave everything as it was. */
static void fail(struct tally *t, struct block *b) {
    volatile size_t huge = SIZE_MAX / 2;
    void *p = NULL;
    if (malloc(huge) || calloc(huge, 8) || realloc(b, huge) || !posix_memalign(&p, 24, 100)) abort();
    t->failed += 4;
    t->entries[MALLOC]++, t->entries[CALLOC]++, t->entries[REALLOC]++, t->entries[POSIX_MEMALIGN]++;
}

/* An empty block is a block. */
static void empty(struct tally *t) {
    void *volatile p = malloc(0);
    free(p);
    t->allocations++, t->deallocations++;
    t->entries[MALLOC]++, t->entries[FREE]++;
}

static void free_keepsake(void *p) {
    free(p);
    atomic_fetch_add(&keepsakes_freed, 1);
}

static void *work(void *arg) {
    struct { struct tally *result; uint64_t seed; } *job = arg;
    struct tally t = {0};
    uint64_t rng = job->seed;
    pthread_barrier_wait(&tally_start);
    pthread_setspecific(keepsake, make(&t, &rng));
    for (int i = 0; i < steps; i++) {
        struct block *mine = make(&t, &rng);
        uint32_t r = next_random(&rng);
        if (r % 4 == 0) mine = resize(&t, mine, &rng);
        if (r % 97 == 0) fail(&t, mine);
        if (r % 89 == 0) empty(&t);
        /* What comes out was as a rule made by another thread, maybe one long gone. */
        struct block *other = atomic_exchange(&exchange[next_random(&rng) % SLOTS], mine);
        if (other && r % 5 == 0) other = resize(&t, other, &rng);
        if (other) drop(&t, other, &rng);
    }
    tally_add(job->result, &t);
    return NULL;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 5;
    if (argc > 2) steps = atoi(argv[2]);
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    static struct tally results[THREADS], sum;

    pthread_key_create(&keepsake, free_keepsake);
    run_round(work, results, seed);
    uint64_t before_blocks = 0, before_bytes = 0, live_blocks = 0, live_bytes = 0;
    for (int i = 0; i < SLOTS; i++)
        if (exchange[i]) before_blocks++, before_bytes += exchange[i]->size;
    memset(results, 0, sizeof results);
    keepsakes_freed = 0;

    mark("tally begin");
    for (int r = 1; r <= rounds; r++) run_round(work, results, seed + (uint64_t)r);
    mark("tally end");

    for (int i = 0; i < THREADS; i++) tally_add(&sum, &results[i]);
    sum.deallocations += keepsakes_freed;
    sum.entries[FREE] += keepsakes_freed;
    for (int i = 0; i < SLOTS; i++)
        if (exchange[i]) live_blocks++, live_bytes += exchange[i]->size;
    print_tally(&sum, NAMES, ENTRIES, live_blocks, live_bytes);
    /* What the program says must agree with itself. */
    return sum.allocations + before_blocks != sum.deallocations + live_blocks;
}
