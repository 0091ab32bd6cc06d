/* A program made of steps, each between two marks of its own, that says at its end
 * what the trace must show between them. */
#ifndef TEST_PROGRAMS_STEPS_H
#define TEST_PROGRAMS_STEPS_H

#include <stdio.h>
#include <stdlib.h>
#include "marks.h"

/* Not fixed by any standard (libc's or libstdc++'s own affair): only the number of
 * blocks gained or lost is. */
enum { ANY = -1 };

struct step {
    const char *name;
    const char *entry;       /* the entry point that must count one call, or "" */
    long allocations, reallocations, deallocations, failed;
    long bytes;              /* requested by allocations and reallocations, or ANY */
    long net_blocks;
};

enum { MAX_STEPS = 128 };
static struct step steps[MAX_STEPS];
static int step_count;

static inline void step_mark(const char *end) {
    char name[32];
    snprintf(name, sizeof name, "step %d%s", step_count, end);
    mark(name);
}

#ifdef __cplusplus
#define STEP_VALUE(...) step{__VA_ARGS__}
#else
#define STEP_VALUE(...) (struct step){__VA_ARGS__}
#endif

#define STEP_WITH(step_name, entry_name, a, r, d, f, b, net, ...)                    \
    do {                                                                             \
        step_mark("");                                                               \
        __VA_ARGS__;                                                                 \
        step_mark(" end");                                                           \
        steps[step_count++] = STEP_VALUE(step_name, entry_name, a, r, d, f, b, net); \
    } while (0)

#define ALLOCATES(name, entry, bytes, ...) STEP_WITH(name, entry, 1, 0, 0, 0, bytes, 1, __VA_ARGS__)
#define REALLOCATES(name, entry, bytes, ...) STEP_WITH(name, entry, 0, 1, 0, 0, bytes, 0, __VA_ARGS__)
#define DEALLOCATES(name, entry, ...) STEP_WITH(name, entry, 0, 0, 1, 0, 0, -1, __VA_ARGS__)
#define FAILS(name, entry, ...) STEP_WITH(name, entry, 0, 0, 0, 1, 0, 0, __VA_ARGS__)
#define NOTHING(name, ...) STEP_WITH(name, "", 0, 0, 0, 0, 0, 0, __VA_ARGS__)

/* What a step relies on; stderr is unbuffered and allocates nothing. */
#define REQUIRE(condition)                                                           \
    do {                                                                             \
        if (!(condition)) {                                                          \
            fprintf(stderr, "line %d: %s does not hold\n", __LINE__, #condition);    \
            abort();                                                                 \
        }                                                                            \
    } while (0)

/* One JSON object a line, in the order of the steps. */
static inline void print_steps(void) {
    for (int i = 0; i < step_count; i++) {
        const struct step *s = &steps[i];
        printf("{\"step\":%d,\"name\":\"%s\",\"entry\":\"%s\",\"allocations\":%ld,"
               "\"reallocations\":%ld,\"deallocations\":%ld,\"failed_allocations\":%ld,"
               "\"requested_bytes\":%ld,\"net_blocks\":%ld}\n",
               i, s->name, s->entry, s->allocations, s->reallocations, s->deallocations,
               s->failed, s->bytes, s->net_blocks);
    }
}

#endif
