/* A program with heaps of its own: what it says of them is known to the byte.
 *
 *   frame arena   64 KiB, in which 10 of 12 frames allocate 100 blocks of 100 bytes and reset;
 *                 frame 7 forgets the reset, so that frame 8 begins with what was left
 *   level pool    within level memory; 5 blocks stay, one of them grown
 *   level memory  1 MiB with a budget of 4096 bytes, which one block breaks
 *   textures      of the graphics processor: addresses that are numbers, above any limit
 *
 * With the argument "misuse" it says what cannot be.
 */
#include <stdlib.h>
#include <string.h>

#include "../../../recorder/include/heapreel.h"

#define ARENA_BYTES (64u << 10)
#define LEVEL_BYTES (1u << 20)

static char *arena;
static size_t used;
static uint64_t frame_arena;

static void *arena_take(size_t bytes) {
    char *block = arena + used;
    used += (bytes + 15) & ~(size_t)15;
    HEAPREEL_HEAP_ALLOC(frame_arena, block, bytes);
    return block;
}

static void arena_reset(void) {
    HEAPREEL_HEAP_RESET(frame_arena);
    used = 0;
}

static void particles(void) {
    int i;
    for (i = 0; i < 100; i++) {
        memset(arena_take(100), 1, 100);
    }
}

static void frames(void) {
    int frame;
    for (frame = 0; frame < 12; frame++) {
        particles();
        if (frame != 7) {
            arena_reset();
        }
        HEAPREEL_FRAME_MARK();
    }
}

static void misuse(void) {
    uint64_t heap = HEAPREEL_HEAP_CREATE("misused", HEAPREEL_HEAP_GENERAL, 0, 0);
    HEAPREEL_HEAP_RANGE(heap, 0x1000, 0x1000);
    HEAPREEL_HEAP_ALLOC(heap, 0x1000, 16);
    HEAPREEL_HEAP_ALLOC(heap, 0x1000, 16); /* twice */
    HEAPREEL_HEAP_FREE(heap, 0x1800);      /* never given out */
    HEAPREEL_HEAP_ALLOC(heap, 0x9000, 16); /* outside of its range */
    HEAPREEL_HEAP_DESTROY(heap);           /* with blocks */
    HEAPREEL_HEAP_FREE(heap, 0x1000);      /* after its end */
}

int main(int count, char **words) {
    uint64_t level, pool, textures;
    char *memory = (char *)malloc(LEVEL_BYTES);
    int i;
    arena = (char *)malloc(ARENA_BYTES);
    frame_arena = HEAPREEL_HEAP_CREATE("frame arena", HEAPREEL_HEAP_ARENA, 0, 0);
    HEAPREEL_HEAP_RANGE(frame_arena, arena, ARENA_BYTES);
    level = HEAPREEL_HEAP_CREATE("level memory", HEAPREEL_HEAP_GENERAL, 0, 4096);
    HEAPREEL_HEAP_RANGE(level, memory, LEVEL_BYTES);
    HEAPREEL_HEAP_ALLOC(level, memory, 4096);
    pool = HEAPREEL_HEAP_CREATE("level pool", HEAPREEL_HEAP_POOL, level, 0);
    HEAPREEL_HEAP_RANGE(pool, memory, 4096);
    textures = HEAPREEL_HEAP_CREATE("textures", HEAPREEL_HEAP_GPU, 0, 0);
    frames();
    for (i = 0; i < 6; i++) {
        HEAPREEL_HEAP_ALLOC(pool, memory + 64 * i, 48);
    }
    HEAPREEL_HEAP_FREE(pool, memory);
    HEAPREEL_HEAP_REALLOC(pool, memory + 64, memory + 64, 64);
    HEAPREEL_HEAP_ALLOC(level, memory + 8192, 1000);
    HEAPREEL_HEAP_FREE(level, memory + 8192);
    HEAPREEL_HEAP_ALLOC(textures, 0xF000000000000000u, 8u << 20);
    HEAPREEL_HEAP_ALLOC(textures, 0xF000000001000000u, 4u << 20);
    if (count > 1 && strcmp(words[1], "misuse") == 0) {
        misuse();
    }
    HEAPREEL_MARK("end");
    return 0;
}
