// As tally.c, through every form of operator new and delete. No call fails here: a
// bad_alloc's own memory comes from malloc, in an amount that is libstdc++'s affair.
// usage: tally [rounds] [steps per thread and round] [seed]; prints one JSON line.
#include <atomic>
#include <cstring>
#include <new>
#include "tally.h"

enum Entry {
    NEW, NEW_ARRAY, NEW_NOTHROW, NEW_ARRAY_NOTHROW,
    NEW_ALIGNED, NEW_ARRAY_ALIGNED, NEW_ALIGNED_NOTHROW, NEW_ARRAY_ALIGNED_NOTHROW,
    DELETE, DELETE_ARRAY, DELETE_SIZED, DELETE_ARRAY_SIZED,
    DELETE_ALIGNED, DELETE_ARRAY_ALIGNED, DELETE_SIZED_ALIGNED, DELETE_ARRAY_SIZED_ALIGNED,
    DELETE_NOTHROW, DELETE_ARRAY_NOTHROW, DELETE_ALIGNED_NOTHROW, DELETE_ARRAY_ALIGNED_NOTHROW,
    MALLOC, REALLOC, FREE, ENTRIES
};
static const char *const NAMES[ENTRIES] = {
    "new", "new[]", "new nothrow", "new[] nothrow",
    "new aligned", "new[] aligned", "new aligned nothrow", "new[] aligned nothrow",
    "delete", "delete[]", "delete sized", "delete[] sized",
    "delete aligned", "delete[] aligned", "delete sized aligned", "delete[] sized aligned",
    "delete nothrow", "delete[] nothrow", "delete aligned nothrow", "delete[] aligned nothrow",
    "malloc", "realloc", "free"};

struct Block {
    size_t size;
    uint32_t entry;
    uint32_t align;
};

enum { SLOTS = 256 };
static std::atomic<Block *> exchange[SLOTS];
static int steps = 2000;

static Block *make(tally &t, uint64_t &rng) {
    const size_t size = random_size(&rng);
    const std::align_val_t align{size_t{32} << next_random(&rng) % 8};
    static constexpr Entry kinds[] = {NEW, NEW_ARRAY, NEW_NOTHROW, NEW_ARRAY_NOTHROW, NEW_ALIGNED,
        NEW_ARRAY_ALIGNED, NEW_ALIGNED_NOTHROW, NEW_ARRAY_ALIGNED_NOTHROW, MALLOC};
    const Entry e = kinds[next_random(&rng) % (sizeof kinds / sizeof *kinds)];
    void *p = nullptr;
    switch (e) {
    case NEW: p = ::operator new(size); break;
    case NEW_ARRAY: p = ::operator new[](size); break;
    case NEW_NOTHROW: p = ::operator new(size, std::nothrow); break;
    case NEW_ARRAY_NOTHROW: p = ::operator new[](size, std::nothrow); break;
    case NEW_ALIGNED: p = ::operator new(size, align); break;
    case NEW_ARRAY_ALIGNED: p = ::operator new[](size, align); break;
    case NEW_ALIGNED_NOTHROW: p = ::operator new(size, align, std::nothrow); break;
    case NEW_ARRAY_ALIGNED_NOTHROW: p = ::operator new[](size, align, std::nothrow); break;
    default: p = malloc(size); break;
    }
    if (!p) abort();
    t.allocations++;
    t.entries[e]++;
    t.requested_bytes += size;
    return new (p) Block{size, e, static_cast<uint32_t>(align)};
}

// Plain, sized or nothrow: all three belong to the same form of new.
static Entry drop_single(Block *b, uint32_t choice) {
    switch (choice) {
    case 0: ::operator delete(b); return DELETE;
    case 1: ::operator delete(b, b->size); return DELETE_SIZED;
    default: ::operator delete(b, std::nothrow); return DELETE_NOTHROW;
    }
}
static Entry drop_array(Block *b, uint32_t choice) {
    switch (choice) {
    case 0: ::operator delete[](b); return DELETE_ARRAY;
    case 1: ::operator delete[](b, b->size); return DELETE_ARRAY_SIZED;
    default: ::operator delete[](b, std::nothrow); return DELETE_ARRAY_NOTHROW;
    }
}
static Entry drop_aligned(Block *b, uint32_t choice) {
    const std::align_val_t align{b->align};
    switch (choice) {
    case 0: ::operator delete(b, align); return DELETE_ALIGNED;
    case 1: ::operator delete(b, b->size, align); return DELETE_SIZED_ALIGNED;
    default: ::operator delete(b, align, std::nothrow); return DELETE_ALIGNED_NOTHROW;
    }
}
static Entry drop_array_aligned(Block *b, uint32_t choice) {
    const std::align_val_t align{b->align};
    switch (choice) {
    case 0: ::operator delete[](b, align); return DELETE_ARRAY_ALIGNED;
    case 1: ::operator delete[](b, b->size, align); return DELETE_ARRAY_SIZED_ALIGNED;
    default: ::operator delete[](b, align, std::nothrow); return DELETE_ARRAY_ALIGNED_NOTHROW;
    }
}

static void drop(tally &t, Block *b, uint64_t &rng) {
    const uint32_t choice = next_random(&rng) % 3;
    Entry e;
    switch (b->entry) {
    case NEW: case NEW_NOTHROW: e = drop_single(b, choice); break;
    case NEW_ARRAY: case NEW_ARRAY_NOTHROW: e = drop_array(b, choice); break;
    case NEW_ALIGNED: case NEW_ALIGNED_NOTHROW: e = drop_aligned(b, choice); break;
    case NEW_ARRAY_ALIGNED: case NEW_ARRAY_ALIGNED_NOTHROW: e = drop_array_aligned(b, choice); break;
    default: free(b); e = FREE; break;
    }
    t.deallocations++;
    t.entries[e]++;
}

// Only what malloc gave may be resized.
static Block *resize(tally &t, Block *b, uint64_t &rng) {
    if (b->entry != MALLOC) return b;
    const size_t size = random_size(&rng);
    b = static_cast<Block *>(realloc(static_cast<void *>(b), size));
    if (!b) abort();
    b->size = size;
    t.reallocations++;
    t.entries[REALLOC]++;
    t.requested_bytes += size;
    return b;
}

static void *work(void *arg) {
    struct Job { tally *result; uint64_t seed; };
    const Job *job = static_cast<Job *>(arg);
    tally t{};
    uint64_t rng = job->seed;
    pthread_barrier_wait(&tally_start);
    for (int i = 0; i < steps; i++) {
        Block *mine = resize(t, make(t, rng), rng);
        Block *other = exchange[next_random(&rng) % SLOTS].exchange(mine);
        if (other) drop(t, resize(t, other, rng), rng);
    }
    tally_add(job->result, &t);
    return nullptr;
}

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 5;
    if (argc > 2) steps = atoi(argv[2]);
    const uint64_t seed = argc > 3 ? strtoull(argv[3], nullptr, 10) : 1;
    static tally results[THREADS], sum;

    run_round(work, results, seed);
    uint64_t before_blocks = 0, live_blocks = 0, live_bytes = 0;
    for (auto &slot : exchange) before_blocks += slot.load() != nullptr;
    memset(results, 0, sizeof results);

    mark("tally begin");
    for (int r = 1; r <= rounds; r++) run_round(work, results, seed + static_cast<uint64_t>(r));
    mark("tally end");

    for (const tally &t : results) tally_add(&sum, &t);
    for (auto &slot : exchange)
        if (const Block *b = slot.load()) live_blocks++, live_bytes += b->size;
    print_tally(&sum, NAMES, ENTRIES, live_blocks, live_bytes);
    return sum.allocations + before_blocks != sum.deallocations + live_blocks;
}
