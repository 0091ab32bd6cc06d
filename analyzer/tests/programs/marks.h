/* Marks in a trace, or nothing at all where no recorder is loaded. */
#ifndef TEST_PROGRAMS_MARKS_H
#define TEST_PROGRAMS_MARKS_H

#ifdef __cplusplus
extern "C" {
#endif
void heapreel_mark(const char *name) __attribute__((weak));
#ifdef __cplusplus
}
#endif

static inline void mark(const char *name) {
    if (heapreel_mark) heapreel_mark(name);
}

#endif
