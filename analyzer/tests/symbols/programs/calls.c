/* Calls whose place in the source is known. A "MARK:" names the line it stands on. */
void probe(const char *name);
__attribute__((noreturn)) void probe_and_exit(const char *name);

volatile int kept;

static inline __attribute__((always_inline)) void innermost(void) {
    probe("inlined"); /* MARK: innermost */
}

static inline __attribute__((always_inline)) void middle(void) {
    innermost(); /* MARK: middle */
}

__attribute__((noinline)) void outer(void) {
    middle(); /* MARK: outer */
    kept++;
}

/* The compiler ends this function with the call: the return address lies in the next. */
__attribute__((noinline)) void last_call(void) {
    probe_and_exit("last"); /* MARK: last_call */
}

__attribute__((noinline)) void after_last_call(void) {
    kept--;
}

static __attribute__((noinline)) void only_local(void) {
    probe("local"); /* MARK: only_local */
    kept++;
}

int main(void) {
    outer();
    only_local();
    if (kept == 1000) /* never */
        after_last_call();
    last_call();
}
