/* What tally.c and tally.cpp share: a program's own count of its calls, and the
 * threads that come and go while it is taken.
 *
 * The count can only be compared to the unit if nothing but the program itself
 * allocates between the marks "tally begin" and "tally end". Two things would:
 *
 * - stdio's buffers: nothing is printed between the marks;
 * - pthread_create: glibc allocates the thread's vector of TLS blocks with calloc,
 *   once for each *stack*, and keeps both when the thread has ended. A first round
 *   before "tally begin" has as many threads alive at once as any later round, and
 *   the stacks are small enough for all to stay in the cache (40 MiB), so later
 *   rounds find every stack there and allocate nothing.
 */
#ifndef TEST_PROGRAMS_TALLY_H
#define TEST_PROGRAMS_TALLY_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "marks.h"

enum { THREADS = 8, STACK_SIZE = 256 * 1024, MAX_ENTRIES = 40 };

/* One thread's count. `entries[i]` counts calls by entry point, failed ones too;
 * free(NULL) and delete of a null pointer move no block and are not counted. */
struct tally {
    uint64_t allocations, reallocations, deallocations, failed;
    uint64_t requested_bytes;
    uint64_t entries[MAX_ENTRIES];
};

static inline void tally_add(struct tally *into, const struct tally *from) {
    into->allocations += from->allocations;
    into->reallocations += from->reallocations;
    into->deallocations += from->deallocations;
    into->failed += from->failed;
    into->requested_bytes += from->requested_bytes;
    for (int i = 0; i < MAX_ENTRIES; i++) into->entries[i] += from->entries[i];
}

static inline uint32_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)(*state >> 16);
}

/* Mostly small, now and then past the threshold where glibc maps each block. */
static inline size_t random_size(uint64_t *state) {
    uint32_t r = next_random(state);
    if (r % 100 < 80) return 16 + next_random(state) % 240;
    if (r % 1000 < 995) return 16 + next_random(state) % 8000;
    return 100000 + next_random(state) % 200000;
}

/* Starts THREADS threads, lets them begin together, and waits until all ended. */
static pthread_barrier_t tally_start;

static inline void run_round(void *(*body)(void *), struct tally *results, uint64_t seed) {
    struct job { struct tally *result; uint64_t seed; };
    static struct job jobs[THREADS];
    pthread_t threads[THREADS];
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_SIZE);
    pthread_barrier_init(&tally_start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        jobs[i].result = &results[i];
        jobs[i].seed = seed * 0x9E3779B97F4A7C15ull + (uint64_t)(i + 1) * 0xBF58476D1CE4E5B9ull;
        if (pthread_create(&threads[i], &attr, body, &jobs[i])) abort();
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&tally_start);
    pthread_attr_destroy(&attr);
}

static inline void print_tally(const struct tally *sum, const char *const *names, int entries,
                               uint64_t live_blocks, uint64_t live_bytes) {
    printf("{\"allocations\":%llu,\"reallocations\":%llu,\"deallocations\":%llu,"
           "\"failed_allocations\":%llu,\"requested_bytes\":%llu,"
           "\"live_blocks\":%llu,\"live_bytes\":%llu,\"entries\":{",
           (unsigned long long)sum->allocations, (unsigned long long)sum->reallocations,
           (unsigned long long)sum->deallocations, (unsigned long long)sum->failed,
           (unsigned long long)sum->requested_bytes, (unsigned long long)live_blocks,
           (unsigned long long)live_bytes);
    for (int i = 0; i < entries; i++)
        printf("%s\"%s\":%llu", i ? "," : "", names[i], (unsigned long long)sum->entries[i]);
    printf("}}\n");
}

#endif
