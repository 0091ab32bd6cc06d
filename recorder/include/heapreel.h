/* heapreel.h: what a game may tell the heapreel recorder about itself.
 *
 * For C99 and C++11 or later. Copy this one file into your game and include it where you need
 * it; there is nothing to link. The functions are weak symbols that the recorder's
 * library provides when the game runs under `heapreel record`. Without it every macro
 * and wrapper here costs one comparison with zero, and does nothing. On systems other
 * than Linux it is nothing at all.
 *
 *     #include "heapreel.h"
 *
 *     int main(void) {
 *         HEAPREEL_THREAD_ROLE(HEAPREEL_CRITICAL);
 *         while (playing()) {
 *             simulate();
 *             draw();
 *             HEAPREEL_FRAME_MARK();
 *         }
 *     }
 *
 * Names are C strings in UTF-8, cut after 512 bytes. They are known by their content,
 * so they may lie anywhere and change afterwards. Use fixed names: a recording can
 * hold 4,096 of them, and 65,536 contexts. All calls may be made from any thread at any
 * time, but, contexts aside, not from signal handlers.
 *
 * A game that is linked statically as a whole (-static) cannot be recorded this way;
 * `heapreel doctor GAME` tells.
 *
 * C++ scopes are in namespace heapreel: heapreel::Segment, heapreel::Phase,
 * heapreel::ContextScope; macros make them: HEAPREEL_CONTEXT("asset", "%s", path).
 */
#ifndef HEAPREEL_H
#define HEAPREEL_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Define HEAPREEL_DISABLE before including this to leave everything out. */
#if !defined(HEAPREEL_DISABLE) && defined(__linux__) && defined(__ELF__) && defined(__GNUC__)
#define HEAPREEL_ENABLED 1
#else
#define HEAPREEL_ENABLED 0
#endif

/* Roles of a thread, see heapreel_thread_role. */
#define HEAPREEL_CRITICAL 1   /* the frame waits for it: main, render, simulation workers */
#define HEAPREEL_BACKGROUND 2 /* it does not: streaming, saving, network, audio decoding */

/* Kinds of heaps that a game announces, see HEAPREEL_HEAP_CREATE. */
#define HEAPREEL_HEAP_GENERAL 0     /* blocks of any size in any order */
#define HEAPREEL_HEAP_POOL 1        /* slots of one size */
#define HEAPREEL_HEAP_ARENA 2       /* all is given back at once */
#define HEAPREEL_HEAP_GPU 3         /* memory of the graphics processor, told by itself */
#define HEAPREEL_HEAP_FILE_MAPPED 4 /* a mapped file */

/* What was counted: of a frame, a thread or a segment. */
typedef struct heapreel_counts {
    uint64_t allocations;        /* blocks given out */
    uint64_t deallocations;      /* blocks given back */
    uint64_t reallocations;      /* blocks that were given another size */
    uint64_t failed;             /* calls that got no memory */
    uint64_t bytes;              /* asked for */
    int64_t live_bytes;          /* usable bytes allocated since counting began and not given
                                    back; of one thread what it allocated less what it gave
                                    back, which may be less than nothing */
    uint64_t allocator_nanos;    /* time in the allocator */
    uint64_t slowest_call_nanos; /* the longest single call; of a thread in the frame under way */
} heapreel_counts;

/* One segment. A block counts where it was allocated, whoever gives it back. */
typedef struct heapreel_segment_stats {
    const char *name; /* "Default" for what belongs to no other; stays valid */
    uint64_t budget_bytes;
    heapreel_counts counts;
} heapreel_segment_stats;

#define HEAPREEL_SEGMENTS 64

typedef struct heapreel_stats {
    uint64_t frames;      /* complete frames so far; 0 for a thread's */
    uint64_t frame_nanos; /* how long the last one took */
    heapreel_counts total;
    uint64_t segment_count; /* those in which something was counted */
    heapreel_segment_stats segments[HEAPREEL_SEGMENTS];
} heapreel_stats;

#if HEAPREEL_ENABLED

#ifdef __cplusplus
extern "C" {
#endif

#define HEAPREEL_WEAK __attribute__((weak))

/* Whether a function is there, by the table of addresses that the loader fills in. Code for a
 * fixed address (-fno-pic) does not ask that table by itself: there the compiler takes a
 * function that is missing when the game is linked for missing for ever. */
#if defined(__x86_64__) && !defined(__PIC__)
#define HEAPREEL_THERE(function)                                     \
    (__extension__({                                                 \
        void *heapreel_there_;                                       \
        __asm__(".weak " #function "\n\t"                            \
                "movq " #function "@GOTPCREL(%%rip), %0"             \
                : "=r"(heapreel_there_));                            \
        heapreel_there_ != 0;                                        \
    }))
#else
#define HEAPREEL_THERE(function) ((function) != 0)
#endif

/* The functions themselves. Each is a null pointer where no recorder is loaded, so
 * call them through the macros and wrappers below. */

/* Ends a game frame of the loop of this name; NULL is the loop "main". */
extern void heapreel_frame_mark(const char *loop) HEAPREEL_WEAK;

/* Notes a named instant, to look at or to compare with another: "level loaded". */
extern void heapreel_mark(const char *name) HEAPREEL_WEAK;

/* Begins and ends a phase, such as loading, in which long frames are no spikes.
 * Phases may overlap and may begin and end on different threads. */
extern void heapreel_phase_begin(const char *name) HEAPREEL_WEAK;
extern void heapreel_phase_end(const char *name) HEAPREEL_WEAK;

/* Makes a segment current on this thread: what it allocates from now on counts
 * against that segment's budget in bytes; 0 is no budget. The first call with a name
 * sets the budget. Returns the segment that was current, for heapreel_segment_leave. */
extern uint32_t heapreel_segment_enter(const char *name, uint64_t budget_bytes)
    HEAPREEL_WEAK;
extern void heapreel_segment_leave(uint32_t previous) HEAPREEL_WEAK;

/* Enters a context: what this thread allocates from now on is for that. Returns what to
 * leave it to, for heapreel_context_leave. */
extern uint64_t heapreel_context_begin(const char *kind, const char *name) HEAPREEL_WEAK;

/* The context of this thread, to be carried to another thread or a later job; it stays
 * valid until the program ends. 0 is outside of any. */
extern uint64_t heapreel_context_current(void) HEAPREEL_WEAK;

/* Makes a carried context this thread's; returns what to leave it to. */
extern uint64_t heapreel_context_enter(uint64_t context) HEAPREEL_WEAK;
extern void heapreel_context_leave(uint64_t previous) HEAPREEL_WEAK;

/* Announces a heap of the game's own; returns its number, 0 while nothing is recorded. What
 * follows tells what it does; see HEAPREEL_HEAP_CREATE. */
extern uint64_t heapreel_heap_create(const char *name, int kind, uint64_t parent,
                                     uint64_t budget_bytes) HEAPREEL_WEAK;
extern void heapreel_heap_range(uint64_t heap, uint64_t address, uint64_t bytes) HEAPREEL_WEAK;
extern void heapreel_heap_alloc(uint64_t heap, uint64_t address, uint64_t bytes) HEAPREEL_WEAK;
extern void heapreel_heap_realloc(uint64_t heap, uint64_t old_address, uint64_t address,
                                  uint64_t bytes) HEAPREEL_WEAK;
extern void heapreel_heap_free(uint64_t heap, uint64_t address) HEAPREEL_WEAK;
extern void heapreel_heap_reset(uint64_t heap) HEAPREEL_WEAK;
extern void heapreel_heap_destroy(uint64_t heap) HEAPREEL_WEAK;

/* Says whether the frame waits for this thread: HEAPREEL_CRITICAL or _BACKGROUND. */
extern void heapreel_thread_role(int role) HEAPREEL_WEAK;

/* Names this thread in the trace, better than the kernel's 15 bytes can. */
extern void heapreel_thread_name(const char *name) HEAPREEL_WEAK;

/* 1 while this process is being recorded, else 0. */
extern int heapreel_is_recording(void) HEAPREEL_WEAK;

/* Starts to record into `file` if the recorder's library was loaded (LD_PRELOAD) but
 * not told to record: for a game that wants only one level in the trace. %p in the
 * name becomes the process id, %e the program's name, %t the time. Returns 1 if the
 * process is being recorded now. Sets an environment variable while it runs: call it
 * while no other thread reads or changes the environment. */
extern int heapreel_start(const char *file) HEAPREEL_WEAK;

/* Ends the recording for good and waits until the trace is whole. */
extern void heapreel_stop(void) HEAPREEL_WEAK;

/* Counts from now on, without a trace; so does HEAPREEL_COUNT=1 in the environment. Needs
 * the recorder's library (LD_PRELOAD or `heapreel record`), not a recording. Returns 1 if
 * the process is being counted now. */
extern int heapreel_count(void) HEAPREEL_WEAK;

/* What all threads did in the last complete frame of the loop "main", and what the calling
 * thread did since counting began. Neither allocates. Both return 1 while counting. */
extern int heapreel_frame_stats(heapreel_stats *stats) HEAPREEL_WEAK;
extern int heapreel_thread_stats(heapreel_stats *stats) HEAPREEL_WEAK;

#ifdef __cplusplus
} /* extern "C" */
#endif

/* Does `call` if `function` is there. */
#define HEAPREEL_IF(function, call)     \
    do {                                \
        if (HEAPREEL_THERE(function)) { \
            (call);                     \
        }                               \
    } while (0)

#else /* nothing to call */

#define HEAPREEL_IF(function, call) \
    do {                            \
    } while (0)

#endif

/* Ends a game frame: of the loop "main", or of a loop with a name of its own, such as
 * HEAPREEL_FRAME_MARK_IN("sim"). */
#define HEAPREEL_FRAME_MARK() HEAPREEL_IF(heapreel_frame_mark, heapreel_frame_mark(NULL))
#define HEAPREEL_FRAME_MARK_IN(loop) HEAPREEL_IF(heapreel_frame_mark, heapreel_frame_mark(loop))

/* Notes a named instant. */
#define HEAPREEL_MARK(name) HEAPREEL_IF(heapreel_mark, heapreel_mark(name))

/* Asks for a clip of the last frames under `heapreel record --clips`; elsewhere a mark.
 * The name is a string literal. */
#define HEAPREEL_CLIP(name) HEAPREEL_MARK("clip: " name)

/* Begins and ends a phase in which long frames are no spikes. */
#define HEAPREEL_PHASE_BEGIN(name) HEAPREEL_IF(heapreel_phase_begin, heapreel_phase_begin(name))
#define HEAPREEL_PHASE_END(name) HEAPREEL_IF(heapreel_phase_end, heapreel_phase_end(name))

/* What this thread means to the frame, and what it is called. */
#define HEAPREEL_THREAD_ROLE(role) HEAPREEL_IF(heapreel_thread_role, heapreel_thread_role(role))
#define HEAPREEL_THREAD_NAME(name) HEAPREEL_IF(heapreel_thread_name, heapreel_thread_name(name))

/* Enters a segment and gives back the former one, to be left to:
 *
 *     uint32_t outer = HEAPREEL_SEGMENT_ENTER("Resource", 256u << 20);
 *     load_textures();
 *     HEAPREEL_SEGMENT_LEAVE(outer);
 */
static inline uint32_t heapreel_segment_enter_if(const char *name, uint64_t budget_bytes) {
#if HEAPREEL_ENABLED
    return HEAPREEL_THERE(heapreel_segment_enter) ? heapreel_segment_enter(name, budget_bytes) : 0;
#else
    (void)name;
    (void)budget_bytes;
    return 0;
#endif
}
static inline void heapreel_segment_leave_if(uint32_t previous) {
    (void)previous;
    HEAPREEL_IF(heapreel_segment_leave, heapreel_segment_leave(previous));
}
#define HEAPREEL_SEGMENT_ENTER(name, budget_bytes) heapreel_segment_enter_if(name, budget_bytes)
#define HEAPREEL_SEGMENT_LEAVE(previous) heapreel_segment_leave_if(previous)

/* Recording from within: whether it runs, starting and stopping it. */
static inline int heapreel_active(void) {
#if HEAPREEL_ENABLED
    return HEAPREEL_THERE(heapreel_is_recording) ? heapreel_is_recording() : 0;
#else
    return 0;
#endif
}
static inline int heapreel_start_if(const char *file) {
#if HEAPREEL_ENABLED
    return HEAPREEL_THERE(heapreel_start) ? heapreel_start(file) : 0;
#else
    (void)file;
    return 0;
#endif
}
static inline void heapreel_stop_if(void) {
    HEAPREEL_IF(heapreel_stop, heapreel_stop());
}

/* Counting without a trace. Without the recorder's library nothing is counted: these give 0,
 * and stats of zeros:
 *
 *     heapreel_stats stats;
 *     HEAPREEL_COUNT();
 *     ...
 *     if (HEAPREEL_FRAME_STATS(&stats)) {
 *         show(stats.total.allocations, stats.total.live_bytes);
 *     }
 */
static inline int heapreel_count_if(void) {
#if HEAPREEL_ENABLED
    return HEAPREEL_THERE(heapreel_count) ? heapreel_count() : 0;
#else
    return 0;
#endif
}
static inline void heapreel_no_stats(heapreel_stats *stats) {
    char *byte = (char *)stats;
    size_t left;
    for (left = sizeof *stats; left > 0; left--) {
        *byte++ = 0;
    }
}
static inline int heapreel_frame_stats_if(heapreel_stats *stats) {
#if HEAPREEL_ENABLED
    if (HEAPREEL_THERE(heapreel_frame_stats)) {
        return heapreel_frame_stats(stats);
    }
#endif
    heapreel_no_stats(stats);
    return 0;
}
static inline int heapreel_thread_stats_if(heapreel_stats *stats) {
#if HEAPREEL_ENABLED
    if (HEAPREEL_THERE(heapreel_thread_stats)) {
        return heapreel_thread_stats(stats);
    }
#endif
    heapreel_no_stats(stats);
    return 0;
}
#define HEAPREEL_COUNT() heapreel_count_if()
#define HEAPREEL_FRAME_STATS(stats) heapreel_frame_stats_if(stats)
#define HEAPREEL_THREAD_STATS(stats) heapreel_thread_stats_if(stats)

#define HEAPREEL_ACTIVE() heapreel_active()
#define HEAPREEL_START(file) heapreel_start_if(file)
#define HEAPREEL_STOP() heapreel_stop_if()

/* Contexts: what memory is for, rather than which function asked for it. They nest. The
 * kind is "asset", "level", "entity", "system", "user", or a word of your own; the name is
 * a format with its arguments, as for printf. Kind and name within the context around are
 * what is counted as one, and each time it is begun is an instance of it.
 *
 *     uint64_t outer = HEAPREEL_CONTEXT_BEGIN("asset", "%s", path);
 *     load(path);
 *     HEAPREEL_CONTEXT_END(outer);
 *
 * and on another thread, or in a job that runs later, for the same:
 *
 *     job->context = HEAPREEL_CONTEXT_CURRENT();
 *     ...
 *     uint64_t outer = HEAPREEL_CONTEXT_ENTER(job->context);
 *     job->run(job);
 *     HEAPREEL_CONTEXT_LEAVE(outer);
 *
 * While nothing is recorded no argument is evaluated and nothing is formatted. These may
 * also be used in a signal handler, with a name that needs no formatting: one without %,
 * or "%s" alone. */
#define HEAPREEL_NOT_ENTERED UINT64_MAX
#define HEAPREEL_CONTEXT_BEGIN(kind, ...)                                 \
    (heapreel_active() ? heapreel_context_begin_if((kind), __VA_ARGS__) \
                       : HEAPREEL_NOT_ENTERED)
#define HEAPREEL_CONTEXT_END(previous) heapreel_context_leave_if(previous)
#define HEAPREEL_CONTEXT_CURRENT() heapreel_context_current_if()
#define HEAPREEL_CONTEXT_ENTER(context) heapreel_context_enter_if(context)
#define HEAPREEL_CONTEXT_LEAVE(previous) heapreel_context_leave_if(previous)

#ifdef __GNUC__
#define HEAPREEL_LIKE_PRINTF(at, first) __attribute__((__format__(__printf__, at, first)))
#else
#define HEAPREEL_LIKE_PRINTF(at, first)
#endif

HEAPREEL_LIKE_PRINTF(2, 3)
static inline uint64_t heapreel_context_begin_if(const char *kind, const char *format, ...) {
#if HEAPREEL_ENABLED
    /* The name's 512 bytes, and a last character that may be cut in two. */
    char room[512 + 4];
    const char *name = room;
    va_list arguments;
    if (!heapreel_context_begin || !format) {
        return HEAPREEL_NOT_ENTERED;
    }
    va_start(arguments, format);
    if (!strchr(format, '%')) {
        name = format;
    } else if (format[0] == '%' && format[1] == 's' && !format[2]) {
        name = va_arg(arguments, const char *);
    } else if (vsnprintf(room, sizeof room, format, arguments) < 0) {
        name = format;
    }
    va_end(arguments);
    return heapreel_context_begin(kind, name);
#else
    (void)kind;
    (void)format;
    return HEAPREEL_NOT_ENTERED;
#endif
}
static inline uint64_t heapreel_context_current_if(void) {
#if HEAPREEL_ENABLED
    return heapreel_context_current ? heapreel_context_current() : 0;
#else
    return 0;
#endif
}
static inline uint64_t heapreel_context_enter_if(uint64_t context) {
#if HEAPREEL_ENABLED
    return heapreel_context_enter ? heapreel_context_enter(context) : HEAPREEL_NOT_ENTERED;
#else
    (void)context;
    return HEAPREEL_NOT_ENTERED;
#endif
}
static inline void heapreel_context_leave_if(uint64_t previous) {
    (void)previous;
    HEAPREEL_IF(heapreel_context_leave, heapreel_context_leave(previous));
}

/* Heaps of the game's own, above the allocator: its blocks are then known one by one, and
 * not as the one great block that the heap got from the allocator.
 *
 *     uint64_t heap = HEAPREEL_HEAP_CREATE("frame arena", HEAPREEL_HEAP_ARENA, 0, 1u << 20);
 *     HEAPREEL_HEAP_RANGE(heap, memory, 1u << 20);
 *     ...
 *     HEAPREEL_HEAP_ALLOC(heap, block, bytes);
 *     ...
 *     HEAPREEL_HEAP_RESET(heap);
 *
 * `parent` is the heap that it takes its memory from, or 0; a budget of 0 is none. Tell of a
 * block behind its being handed out and before its being taken back, so that no other thread
 * can be given it in between. _RESET takes all blocks back; _DESTROY says that the heap gives
 * up its memory, and blocks that it still has are left over. A heap may hold several ranges;
 * an address in one is known to be the heap's even where no block lies. Addresses may be
 * pointers or, for memory of the graphics processor, numbers. A heap that was announced while
 * nothing was recorded stays unknown, and so do a parent's heaps in a forked child. */
#define HEAPREEL_HEAP_CREATE(name, kind, parent, budget_bytes) \
    heapreel_heap_create_if((name), (kind), (parent), (budget_bytes))
#define HEAPREEL_HEAP_RANGE(heap, address, bytes) \
    HEAPREEL_HEAP_DOES_(heapreel_heap_range, (heap), (uint64_t)(address), (uint64_t)(bytes))
#define HEAPREEL_HEAP_ALLOC(heap, address, bytes) \
    HEAPREEL_HEAP_DOES_(heapreel_heap_alloc, (heap), (uint64_t)(address), (uint64_t)(bytes))
#define HEAPREEL_HEAP_REALLOC(heap, old_address, address, bytes)                     \
    HEAPREEL_HEAP_DOES_(heapreel_heap_realloc, (heap), (uint64_t)(old_address),      \
                        (uint64_t)(address), (uint64_t)(bytes))
#define HEAPREEL_HEAP_FREE(heap, address) \
    HEAPREEL_HEAP_DOES_(heapreel_heap_free, (heap), (uint64_t)(address))
#define HEAPREEL_HEAP_RESET(heap) HEAPREEL_HEAP_DOES_(heapreel_heap_reset, (heap))
#define HEAPREEL_HEAP_DESTROY(heap) HEAPREEL_HEAP_DOES_(heapreel_heap_destroy, (heap))

#if HEAPREEL_ENABLED
#define HEAPREEL_HEAP_DOES_(function, ...)  \
    do {                                    \
        if (HEAPREEL_THERE(function)) {     \
            function(__VA_ARGS__);          \
        }                                   \
    } while (0)
#else
static inline void heapreel_heap_does_nothing(uint64_t heap, ...) {
    (void)heap;
}
#define HEAPREEL_HEAP_DOES_(function, ...) heapreel_heap_does_nothing(__VA_ARGS__)
#endif

static inline uint64_t heapreel_heap_create_if(const char *name, int kind, uint64_t parent,
                                               uint64_t budget_bytes) {
#if HEAPREEL_ENABLED
    return HEAPREEL_THERE(heapreel_heap_create)
               ? heapreel_heap_create(name, kind, parent, budget_bytes)
               : 0;
#else
    (void)name;
    (void)kind;
    (void)parent;
    (void)budget_bytes;
    return 0;
#endif
}

#ifdef __cplusplus

namespace heapreel {

/* A segment for as long as this lives:
 *
 *     heapreel::Segment resource("Resource", 256u << 20);
 */
class Segment {
public:
    explicit Segment(const char *name, uint64_t budget_bytes = 0)
        : previous_(heapreel_segment_enter_if(name, budget_bytes)) {}
    ~Segment() { heapreel_segment_leave_if(previous_); }
    Segment(const Segment &) = delete;
    Segment &operator=(const Segment &) = delete;

private:
    uint32_t previous_;
};

/* A phase for as long as this lives. The name must live as long. */
class Phase {
public:
    explicit Phase(const char *name) : name_(name) { HEAPREEL_PHASE_BEGIN(name_); }
    ~Phase() {
        (void)name_;
        HEAPREEL_PHASE_END(name_);
    }
    Phase(const Phase &) = delete;
    Phase &operator=(const Phase &) = delete;

private:
    const char *name_;
};

/* Leaves a context at the end of a block; see HEAPREEL_CONTEXT. */
class ContextScope {
public:
    explicit ContextScope(uint64_t previous) : previous_(previous) {}
    ~ContextScope() { heapreel_context_leave_if(previous_); }
    ContextScope(const ContextScope &) = delete;
    ContextScope &operator=(const ContextScope &) = delete;

private:
    uint64_t previous_;
};

} // namespace heapreel

/* The same with a name that nobody needs to invent, until the end of the block. */
#define HEAPREEL_JOINED_(a, b) a##b
#define HEAPREEL_JOINED(a, b) HEAPREEL_JOINED_(a, b)
#define HEAPREEL_SEGMENT_SCOPE(...) \
    ::heapreel::Segment HEAPREEL_JOINED(heapreel_segment_, __LINE__)(__VA_ARGS__)
#define HEAPREEL_PHASE_SCOPE(name) \
    ::heapreel::Phase HEAPREEL_JOINED(heapreel_phase_, __LINE__)(name)

/* A context until the end of the block: HEAPREEL_CONTEXT("asset", "rock_%02d", number); and
 * a carried one: HEAPREEL_CONTEXT_RESUME(job.context). */
#define HEAPREEL_CONTEXT(...)                                     \
    ::heapreel::ContextScope HEAPREEL_JOINED(heapreel_context_, \
                                             __LINE__)(HEAPREEL_CONTEXT_BEGIN(__VA_ARGS__))
#define HEAPREEL_CONTEXT_RESUME(context)                          \
    ::heapreel::ContextScope HEAPREEL_JOINED(heapreel_context_, \
                                             __LINE__)(HEAPREEL_CONTEXT_ENTER(context))

#endif /* __cplusplus */

#endif /* HEAPREEL_H */
