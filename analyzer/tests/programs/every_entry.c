/* Each allocation entry point of libc once, each with a size of its own. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <string.h>
#include "steps.h"

/* C23; glibc may not have them yet. */
void free_sized(void *, size_t) __attribute__((weak));
void free_aligned_sized(void *, size_t, size_t) __attribute__((weak));

static volatile size_t huge = SIZE_MAX / 2;
static void *p, *q;
static char *text;

static int aligned(const void *block, size_t align) { return (uintptr_t)block % align == 0; }

static void plain(void) {
    ALLOCATES("malloc", "malloc", 1001, p = malloc(1001));
    NOTHING("malloc_usable_size", REQUIRE(malloc_usable_size(p) >= 1001));
    DEALLOCATES("free", "free", free(p));
    NOTHING("free(NULL)", free(NULL));
    ALLOCATES("malloc(0)", "malloc", 0, p = malloc(0));
    REQUIRE(p);
    DEALLOCATES("free of an empty block", "free", free(p));
    ALLOCATES("calloc", "calloc", 3 * 334, p = calloc(3, 334));
    free(p);
}

static void resized(void) {
    ALLOCATES("realloc(NULL, n)", "realloc", 1003, p = realloc(NULL, 1003));
    REALLOCATES("realloc to the same size", "realloc", 1003, q = realloc(p, 1003));
    REQUIRE(p == q);
    REALLOCATES("realloc, shrinking", "realloc", 104, p = realloc(q, 104));
    void *wall = malloc(64); /* keeps the block from growing in place, or it grows below */
    REALLOCATES("realloc, growing", "realloc", 50005, p = realloc(p, 50005));
    REALLOCATES("realloc of a mapped block", "realloc", 3000006, p = realloc(p, 3000006));
    REALLOCATES("realloc from mapped to heap", "realloc", 1007, p = realloc(p, 1007));
    free(wall);
    DEALLOCATES("realloc(p, 0)", "realloc", REQUIRE(!realloc(p, 0)));
    ALLOCATES("realloc(NULL, 0)", "realloc", 0, p = realloc(NULL, 0));
    free(p);
    ALLOCATES("reallocarray(NULL)", "reallocarray", 7 * 144, p = reallocarray(NULL, 7, 144));
    REALLOCATES("reallocarray", "reallocarray", 7 * 145, p = reallocarray(p, 7, 145));
    DEALLOCATES("reallocarray to nothing", "reallocarray", REQUIRE(!reallocarray(p, 0, 8)));
}

static void aligned_forms(void) {
    ALLOCATES("memalign 64", "memalign", 1010, p = memalign(64, 1010));
    REQUIRE(aligned(p, 64));
    free(p);
    ALLOCATES("memalign 4096", "memalign", 1011, p = memalign(4096, 1011));
    REQUIRE(aligned(p, 4096));
    REALLOCATES("realloc of an aligned block", "realloc", 10011, p = realloc(p, 10011));
    free(p);
    ALLOCATES("aligned_alloc 64", "aligned_alloc", 1024, p = aligned_alloc(64, 1024));
    REQUIRE(aligned(p, 64));
    free(p);
    ALLOCATES("aligned_alloc 4096", "aligned_alloc", 8192, p = aligned_alloc(4096, 8192));
    REQUIRE(aligned(p, 4096));
    free(p);
    ALLOCATES("posix_memalign 64", "posix_memalign", 1014, REQUIRE(!posix_memalign(&p, 64, 1014)));
    REQUIRE(aligned(p, 64));
    free(p);
    ALLOCATES("posix_memalign 4096", "posix_memalign", 1015, REQUIRE(!posix_memalign(&p, 4096, 1015)));
    REQUIRE(aligned(p, 4096));
    free(p);
    ALLOCATES("valloc", "valloc", 1016, p = valloc(1016));
    REQUIRE(aligned(p, 4096));
    free(p);
    ALLOCATES("pvalloc", "pvalloc", 1017, p = pvalloc(1017));
    REQUIRE(aligned(p, 4096) && malloc_usable_size(p) >= 4096);
    free(p);
}

static void sized_free(void) {
    if (!free_sized || !free_aligned_sized) return;
    p = malloc(1020);
    DEALLOCATES("free_sized", "free_sized", free_sized(p, 1020));
    p = aligned_alloc(64, 1024);
    DEALLOCATES("free_aligned_sized", "free_aligned_sized", free_aligned_sized(p, 64, 1024));
}

static void failing(void) {
    FAILS("malloc fails", "", p = malloc(huge));
    REQUIRE(!p && errno == ENOMEM);
    FAILS("calloc fails", "", p = calloc(1, huge));
    REQUIRE(!p);
    FAILS("calloc overflows", "", p = calloc(huge, 16));
    REQUIRE(!p && errno == ENOMEM);
    text = strcpy(malloc(1030), "still here");
    FAILS("realloc fails", "", p = realloc(text, huge));
    REQUIRE(!p && !strcmp(text, "still here"));
    FAILS("reallocarray overflows", "", p = reallocarray(text, huge, 16));
    REQUIRE(!p && errno == ENOMEM && !strcmp(text, "still here"));
    DEALLOCATES("free after both failed", "free", free(text));
    FAILS("memalign fails", "", p = memalign(64, huge));
    REQUIRE(!p);
    FAILS("aligned_alloc fails", "", p = aligned_alloc(64, huge));
    REQUIRE(!p);
    p = &p;
    FAILS("posix_memalign fails", "", REQUIRE(posix_memalign(&p, 64, huge) == ENOMEM));
    FAILS("posix_memalign EINVAL", "", REQUIRE(posix_memalign(&p, 24, 100) == EINVAL));
    REQUIRE(p == &p); /* glibc leaves it alone */
    FAILS("valloc fails", "", p = valloc(huge));
    REQUIRE(!p);
    FAILS("pvalloc fails", "", p = pvalloc(huge));
    REQUIRE(!p);
}

/* libc's own calls of malloc belong to whoever called libc. */
static void inside_libc(void) {
    ALLOCATES("strdup", "malloc", 11, text = strdup("ten chars!"));
    free(text);
    ALLOCATES("strndup", "malloc", 4, text = strndup("ten chars!", 3));
    free(text);
    STEP_WITH("asprintf", "", ANY, ANY, ANY, 0, ANY, 1, REQUIRE(asprintf(&text, "%200d", 7) == 200));
    free(text);
    FILE *in = fmemopen("a line\n", 7, "r");
    char *line = NULL;
    size_t room = 0;
    getc(in); /* the stream's buffer is there before the step */
    STEP_WITH("getline", "", ANY, ANY, ANY, 0, ANY, 1, REQUIRE(getline(&line, &room, in) == 6));
    free(line);
    fclose(in);
}

int main(void) {
    plain();
    resized();
    aligned_forms();
    sized_free();
    failing();
    inside_libc();
    print_steps();
    return 0;
}
