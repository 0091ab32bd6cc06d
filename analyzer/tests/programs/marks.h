/* Marks in a trace, or nothing at all where no recorder is loaded.
 *
 * noplt: in a program linked at a fixed address the linker would otherwise settle the
 * missing function as null for good; through the table of addresses it stays open. */
#ifndef TEST_PROGRAMS_MARKS_H
#define TEST_PROGRAMS_MARKS_H

#ifdef __cplusplus
extern "C" {
#endif
void heapreel_mark(const char *name) __attribute__((weak, noplt));
#ifdef __cplusplus
}
#endif

static inline void mark(const char *name) {
    if (heapreel_mark) heapreel_mark(name);
}

#endif
