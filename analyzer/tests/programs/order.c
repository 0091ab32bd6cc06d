/* Makes the allocator hand each address from thread to thread as fast as it can: small
 * blocks of few sizes, few slots to exchange them through, many moves.
 *
 * usage: order [steps per thread]; prints one JSON line. */
#include <stdatomic.h>
#include "tally.h"

enum { SLOTS = 24 };
static _Atomic(void *) exchange[SLOTS];
static long steps = 10000;

static void *work(void *arg) {
    struct { struct tally *result; uint64_t seed; } *job = arg;
    struct tally t = {0};
    uint64_t rng = job->seed;
    pthread_barrier_wait(&tally_start);
    for (long i = 0; i < steps; i++) {
        uint32_t r = next_random(&rng);
        size_t size = 16 + r % 5 * 24;
        void *mine = malloc(size);
        t.allocations++, t.requested_bytes += size;
        void *other = atomic_exchange(&exchange[(r >> 8) % SLOTS], mine);
        if (!other) continue;
        if (r % 3 == 0) {
            size_t moved_size = 16 + (r >> 16) % 7 * 48;
            other = realloc(other, moved_size);
            t.reallocations++, t.requested_bytes += moved_size;
        }
        if (r % 7 == 0) other = atomic_exchange(&exchange[(r >> 12) % SLOTS], other);
        if (!other) continue;
        free(other);
        t.deallocations++;
    }
    tally_add(job->result, &t);
    return NULL;
}

int main(int argc, char **argv) {
    static struct tally results[THREADS], sum;
    long wanted = argc > 1 ? atol(argv[1]) : steps;
    steps = 10;
    run_round(work, results, 1);
    for (int i = 0; i < THREADS; i++) results[i] = (struct tally){0};
    steps = wanted;
    mark("order begin");
    run_round(work, results, 2);
    mark("order end");
    for (int i = 0; i < THREADS; i++) tally_add(&sum, &results[i]);
    print_tally(&sum, NULL, 0, 0, 0);
    return 0;
}
