/* Reads its own counters and compares them with what it did; compiles as C and as C++.
 *
 * usage: counters none | variable | call
 *   none: nothing counts; variable: it counts already; call: it does from heapreel_count on
 * Exit 0 if every figure is right; the first that is not is told. */
#include "../../../recorder/include/heapreel.h"
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int wrong(const char *what, long long is, long long should) {
    fprintf(stderr, "%s: %lld instead of %lld\n", what, is, should);
    exit(1);
}
#define IS(what, should) \
    ((long long)(what) == (long long)(should) ? 0 : wrong(#what, (long long)(what), (long long)(should)))

static heapreel_counts segment(const heapreel_stats *stats, const char *name) {
    heapreel_counts none;
    uint64_t i;
    memset(&none, 0, sizeof none);
    for (i = 0; i < stats->segment_count; i++) {
        if (strcmp(stats->segments[i].name, name) == 0) {
            return stats->segments[i].counts;
        }
    }
    return none;
}

static void *blocks[3];

static void *worker(void *unused) {
    uint32_t outer = HEAPREEL_SEGMENT_ENTER("Level", 1u << 20);
    blocks[0] = malloc(100);
    blocks[1] = calloc(10, 20);
    blocks[2] = malloc(1000);
    free(blocks[2]);
    HEAPREEL_SEGMENT_LEAVE(outer);
    return unused;
}

static void nothing_counts(void) {
    heapreel_stats stats;
    memset(&stats, 1, sizeof stats);
    free(malloc(10));
    HEAPREEL_FRAME_MARK();
    IS(HEAPREEL_FRAME_STATS(&stats), 0);
    IS(stats.frames, 0);
    IS(stats.segment_count, 0);
    IS(HEAPREEL_THREAD_STATS(&stats), 0);
    IS(stats.total.allocations, 0);
}

static void of_a_frame(void) {
    heapreel_stats stats;
    heapreel_counts level;
    uint64_t frames;
    pthread_t thread;
    long long live;
    HEAPREEL_FRAME_MARK();
    IS(HEAPREEL_FRAME_STATS(&stats), 1);
    frames = stats.frames;
    if (pthread_create(&thread, NULL, worker, NULL) != 0) {
        exit(2);
    }
    pthread_join(thread, NULL);
    live = (long long)(malloc_usable_size(blocks[0]) + malloc_usable_size(blocks[1]));
    HEAPREEL_FRAME_MARK();
    IS(HEAPREEL_FRAME_STATS(&stats), 1);
    IS(stats.frames, frames + 1);
    level = segment(&stats, "Level");
    IS(level.allocations, 3);
    IS(level.deallocations, 1);
    IS(level.bytes, 100 + 200 + 1000);
    IS(level.live_bytes, live);
    IS(level.slowest_call_nanos > 0 && level.slowest_call_nanos <= level.allocator_nanos, 1);
    IS(level.allocator_nanos <= stats.frame_nanos, 1);
    /* Given back from elsewhere: its segment's all the same. */
    blocks[0] = realloc(blocks[0], 5000);
    live = (long long)malloc_usable_size(blocks[0]);
    free(blocks[1]);
    HEAPREEL_FRAME_MARK();
    IS(HEAPREEL_FRAME_STATS(&stats), 1);
    level = segment(&stats, "Level");
    IS(level.allocations, 0);
    IS(level.reallocations, 1);
    IS(level.deallocations, 1);
    IS(level.live_bytes, live);
    free(blocks[0]);
    HEAPREEL_FRAME_MARK();
    HEAPREEL_FRAME_STATS(&stats);
    IS(segment(&stats, "Level").live_bytes, 0);
}

static void of_this_thread(void *early) {
    heapreel_stats before, after;
    void *block;
    IS(HEAPREEL_THREAD_STATS(&before), 1);
    block = malloc(64);
    HEAPREEL_THREAD_STATS(&after);
    IS(after.total.allocations - before.total.allocations, 1);
    IS(after.total.bytes - before.total.bytes, 64);
    IS(after.total.live_bytes - before.total.live_bytes, malloc_usable_size(block));
    free(block);
    IS(malloc((size_t)-1 / 2) == NULL, 1);
    HEAPREEL_THREAD_STATS(&after);
    IS(after.total.failed - before.total.failed, 1);
    IS(after.total.live_bytes, before.total.live_bytes);
#ifdef __cplusplus
    {
        int *number = new int(1);
        HEAPREEL_THREAD_STATS(&after);
        IS(after.total.allocations - before.total.allocations, 2);
        IS(after.total.live_bytes - before.total.live_bytes, malloc_usable_size(number));
        delete number;
        try {
            block = operator new((size_t)-1 / 2);
        } catch (const std::bad_alloc &) {
            block = NULL;
        }
        HEAPREEL_THREAD_STATS(&after);
        IS(after.total.failed - before.total.failed, 2);
        IS(after.total.live_bytes, before.total.live_bytes);
    }
#endif
    /* Of a block from before the counting nothing was live. */
    if (early != NULL) {
        HEAPREEL_THREAD_STATS(&before);
        free(early);
        HEAPREEL_THREAD_STATS(&after);
        IS(after.total.deallocations - before.total.deallocations, 1);
        IS(after.total.live_bytes, before.total.live_bytes);
    }
}

/* It counts on from its parent's figures. */
static void of_a_child(void) {
    heapreel_stats stats;
    uint32_t outer = HEAPREEL_SEGMENT_ENTER("Level", 0);
    void *of_parent = malloc(30);
    long long live = (long long)malloc_usable_size(of_parent);
    int status = 0;
    pid_t child;
    HEAPREEL_FRAME_MARK();
    child = fork();
    if (child == 0) {
        /* Named before "Level" is named again: each stays what it was. */
        HEAPREEL_SEGMENT_LEAVE(HEAPREEL_SEGMENT_ENTER("Temp", 0));
        IS(HEAPREEL_FRAME_STATS(&stats), 1);
        IS(segment(&stats, "Level").live_bytes, live);
        HEAPREEL_SEGMENT_LEAVE(HEAPREEL_SEGMENT_ENTER("Level", 0));
        HEAPREEL_FRAME_MARK();
        blocks[0] = malloc(40);
        live += (long long)malloc_usable_size(blocks[0]);
        HEAPREEL_FRAME_MARK();
        HEAPREEL_FRAME_STATS(&stats);
        IS(segment(&stats, "Level").allocations, 1);
        IS(segment(&stats, "Level").live_bytes, live);
        free(of_parent);
        free(blocks[0]);
        HEAPREEL_FRAME_MARK();
        HEAPREEL_FRAME_STATS(&stats);
        IS(segment(&stats, "Level").deallocations, 2);
        IS(segment(&stats, "Level").live_bytes, 0);
        exit(0);
    }
    IS(waitpid(child, &status, 0), child);
    IS(status, 0);
    free(of_parent);
    HEAPREEL_SEGMENT_LEAVE(outer);
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "none";
    void *early = NULL;
    if (strcmp(mode, "none") == 0) {
        nothing_counts();
        return 0;
    }
    if (strcmp(mode, "call") == 0) {
        early = malloc(300);
        nothing_counts();
        IS(HEAPREEL_COUNT(), 1);
    }
    IS(HEAPREEL_COUNT(), 1);
    of_this_thread(early);
    of_a_frame();
    of_a_child();
    return 0;
}
