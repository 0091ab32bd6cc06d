/* A whole malloc without a lock: a block is cut off one large range by one atomic
 * addition, and never given out again. So it may be called from a signal handler that
 * interrupted it, and left by longjmp, at any instruction: what glibc's may not. */
#ifndef TEST_PROGRAMS_BUMP_H
#define TEST_PROGRAMS_BUMP_H

#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

static const size_t BUMP_ROOM = (size_t)16 << 30; /* address space, not memory */
static _Atomic(char *) bump_start;
static _Atomic size_t bump_used;
_Atomic unsigned long bump_calls; /* how often this malloc was asked */

static char *bump_range(void) {
    char *start = atomic_load(&bump_start), *expected = NULL;
    if (start) return start;
    start = mmap(NULL, BUMP_ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) return NULL;
    if (atomic_compare_exchange_strong(&bump_start, &expected, start)) return start;
    munmap(start, BUMP_ROOM);
    return expected;
}

/* The size stands in the 16 bytes before the block. */
static void *bump(size_t align, size_t size) {
    char *start = bump_range();
    if (align < 16) align = 16;
    if (!start || size > BUMP_ROOM / 2 || align > BUMP_ROOM / 2) return errno = ENOMEM, NULL;
    size_t room = ((size + 15) & ~(size_t)15) + align + 16;
    size_t at = atomic_fetch_add(&bump_used, room);
    atomic_fetch_add(&bump_calls, 1);
    if (at + room > BUMP_ROOM) return errno = ENOMEM, NULL;
    char *block = (char *)(((uintptr_t)start + at + 16 + align - 1) & ~(align - 1));
    ((size_t *)block)[-1] = size;
    return block;
}

void *malloc(size_t size) { return bump(16, size); }
void free(void *block) { (void)block; }

void *calloc(size_t count, size_t size) {
    size_t total;
    if (__builtin_mul_overflow(count, size, &total)) return errno = ENOMEM, NULL;
    return bump(16, total); /* fresh pages are zero and never used twice */
}

size_t malloc_usable_size(void *block) { return block ? ((size_t *)block)[-1] : 0; }

void *realloc(void *block, size_t size) {
    if (block && !size) return NULL;
    void *moved = bump(16, size);
    if (moved && block) {
        size_t old = malloc_usable_size(block);
        memcpy(moved, block, old < size ? old : size);
    }
    return moved;
}

void *memalign(size_t align, size_t size) { return bump(align, size); }
void *aligned_alloc(size_t align, size_t size) { return bump(align, size); }
void *valloc(size_t size) { return bump(4096, size); }

int posix_memalign(void **block, size_t align, size_t size) {
    if (align < sizeof(void *) || align & (align - 1)) return EINVAL;
    void *p = bump(align, size);
    if (!p) return ENOMEM;
    *block = p;
    return 0;
}

#endif
