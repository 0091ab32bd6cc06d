// What each function that a recorder stands in front of leaves in errno, of calls that
// succeed and of calls that fail. It judges nothing: recorded or not, it must print the same.
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <new>
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include "marks.h"

extern "C" void cfree(void *) __attribute__((weak, noplt));

// No call sets this. So many rounds that buffers of records change.
enum { PRESET = 4077, ROUNDS = 400, FEW_ROUNDS = 3 };
static volatile size_t huge = SIZE_MAX / 2, odd = 24;

static void give_back(void *block) { std::free(block); }
static void ignore(long) {}

template <typename Call, typename Keep>
static void report(const char *name, int rounds, Call call, Keep keep) {
    int first = PRESET, others = 0;
    for (int i = 0; i < rounds; i++) {
        errno = PRESET;
        auto result = call();
        const int left = errno;
        if (i == 0) first = left;
        others += left != first;
        keep(result);
    }
    std::printf("%-33s leaves %d, another one %d times\n", name, first, others);
}

// A call that gives a block, one that gives a number, one that takes `block`.
#define GIVES(name, call) report(name, ROUNDS, [] { return static_cast<void *>(call); }, give_back)
#define DOES(name, rounds, call) report(name, rounds, [] { return static_cast<long>(call); }, ignore)
#define TAKES(name, make, call)           \
    report(                               \
        name, ROUNDS,                     \
        [] {                              \
            void *volatile block = make;  \
            errno = PRESET;               \
            call;                         \
            return 0L;                    \
        },                                \
        ignore)

static long through_pointer(size_t align, size_t size) {
    void *block = nullptr;
    const int result = posix_memalign(&block, align, size);
    const int left = errno;
    std::free(block);
    errno = left;
    return result;
}

static void *refused_to_grow() {
    static void *block = std::malloc(64);
    return std::realloc(block, huge);
}

static void of_c() {
    GIVES("malloc", std::malloc(100));
    GIVES("malloc of much", std::malloc(1 << 20));
    GIVES("malloc, refused", std::malloc(huge));
    GIVES("calloc", std::calloc(3, 50));
    GIVES("calloc, refused", std::calloc(huge, 8));
    GIVES("realloc of none", std::realloc(nullptr, 90));
    GIVES("realloc", std::realloc(std::malloc(10), 5000));
    GIVES("realloc to nothing", std::realloc(std::malloc(10), 0));
    GIVES("realloc, refused", refused_to_grow());
    GIVES("reallocarray", reallocarray(nullptr, 9, 9));
    GIVES("reallocarray, refused", reallocarray(nullptr, huge, 16));
    GIVES("memalign", memalign(64, 100));
    GIVES("memalign, refused", memalign(64, huge));
    GIVES("aligned_alloc", std::aligned_alloc(64, 128));
    GIVES("aligned_alloc, refused", std::aligned_alloc(64, huge));
    GIVES("valloc", valloc(100));
    GIVES("valloc, refused", valloc(huge));
    GIVES("pvalloc", pvalloc(100));
    GIVES("pvalloc, refused", pvalloc(huge));
    DOES("posix_memalign", ROUNDS, through_pointer(64, 100));
    DOES("posix_memalign, refused", ROUNDS, through_pointer(64, huge));
    DOES("posix_memalign, misused", ROUNDS, through_pointer(odd, 100));
    TAKES("free", std::malloc(100), std::free(block));
    TAKES("free of none", nullptr, std::free(block));
    TAKES("free of much", std::malloc(8 << 20), std::free(block));
    TAKES("malloc_usable_size", std::malloc(100), (void)malloc_usable_size(block));
    if (cfree) TAKES("cfree", std::malloc(100), cfree(block));
}

static long thrown(void *(*call)(size_t)) {
    try {
        std::free(call(huge));
    } catch (const std::bad_alloc &) {
        return 1;
    }
    return 0;
}

static void of_cpp() {
    using std::align_val_t;
    using std::nothrow;
    GIVES("new", ::operator new(100));
    GIVES("new[]", ::operator new[](100));
    GIVES("new, aligned", ::operator new(100, align_val_t{64}));
    GIVES("new[], aligned", ::operator new[](100, align_val_t{64}));
    GIVES("new, nothrow", ::operator new(100, nothrow));
    GIVES("new, nothrow, refused", ::operator new(huge, nothrow));
    GIVES("new[], nothrow, refused", ::operator new[](huge, nothrow));
    GIVES("new, aligned, nothrow, refused", ::operator new(huge, align_val_t{64}, nothrow));
    DOES("new, refused", ROUNDS, thrown(::operator new));
    DOES("new[], refused", ROUNDS, thrown(::operator new[]));
    TAKES("delete", ::operator new(10), ::operator delete(block));
    TAKES("delete, sized", ::operator new(10), ::operator delete(block, 10));
    TAKES("delete[]", ::operator new[](10), ::operator delete[](block));
    TAKES("delete, nothrow", ::operator new(10), ::operator delete(block, nothrow));
    TAKES("delete, aligned", ::operator new(10, align_val_t{64}), ::operator delete(block, align_val_t{64}));
    TAKES("delete[], sized, aligned", ::operator new[](10, align_val_t{64}),
          ::operator delete[](block, 10, align_val_t{64}));
}

// A thread's first call gives the recorder the most to do.
static void *on_a_thread(void *) {
    errno = PRESET;
    void *volatile block = std::malloc(100);
    int left = errno;
    std::free(block);
    return reinterpret_cast<void *>(static_cast<intptr_t>(left));
}

static long first_of_a_thread() {
    pthread_t thread;
    void *left = nullptr;
    pthread_create(&thread, nullptr, on_a_thread, nullptr);
    pthread_join(thread, &left);
    errno = static_cast<int>(reinterpret_cast<intptr_t>(left));
    return 0;
}

static char *arguments[] = {const_cast<char *>("true"), nullptr};
static char *variables[] = {nullptr};
static const char missing[] = "/there is/no such program";

static long spawned(const char *path) {
    pid_t child = 0;
    const int result = posix_spawn(&child, path, nullptr, nullptr, arguments, variables);
    const int left = errno;
    if (result == 0) waitpid(child, nullptr, 0);
    errno = left;
    return result;
}

// The child tells by its exit code what it found.
static long forked(pid_t (*fork_by)()) {
    const pid_t child = fork_by();
    if (child == 0) {
        std::free(std::malloc(100));
        _exit(errno == PRESET ? 0 : 1);
    }
    const int left = errno;
    int status = 0;
    waitpid(child, &status, 0);
    errno = status ? -1 : left;
    return 0;
}

static long closed_library() {
    void *library = dlopen("libm.so.6", RTLD_NOW);
    errno = PRESET;
    return dlclose(library);
}

static void of_processes() {
    DOES("execve, refused", FEW_ROUNDS, execve(missing, arguments, variables));
    DOES("execv of a folder", FEW_ROUNDS, execv("/", arguments));
    DOES("execvp, refused", FEW_ROUNDS, execvp("no such program anywhere", arguments));
    DOES("execvpe, refused", FEW_ROUNDS, execvpe("no such program anywhere", arguments, variables));
    DOES("execl, refused", FEW_ROUNDS, execl(missing, "x", nullptr));
    DOES("fexecve, refused", FEW_ROUNDS, fexecve(-1, arguments, variables));
    DOES("execveat, refused", FEW_ROUNDS, execveat(AT_FDCWD, missing, arguments, variables, 0));
    DOES("posix_spawn, refused", FEW_ROUNDS, spawned(missing));
    DOES("posix_spawn", FEW_ROUNDS, spawned("/bin/true"));
    DOES("fork", FEW_ROUNDS, forked(fork));
    DOES("_Fork", FEW_ROUNDS, forked(_Fork));
    DOES("a thread's first call", FEW_ROUNDS, first_of_a_thread());
    DOES("dlclose", ROUNDS, closed_library());
    DOES("a mark", FEW_ROUNDS, (mark("errno"), 0));
}

int main() {
    of_c();
    of_cpp();
    of_processes();
}
