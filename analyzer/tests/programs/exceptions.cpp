// Exceptions and jumps through stack frames that allocate.
// usage: exceptions throw|far|bad_alloc|handler|reserve|nothrow|longjmp|threads
// Prints what it caught, and how many requests were refused in the end.
#include <atomic>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

static volatile std::size_t huge = SIZE_MAX / 2;
static int made, gone, refused;

struct Guard {
    std::string text = std::string(100, 'g');
    Guard() { made++; }
    ~Guard() { gone++; }
};

static int descend(int depth) {
    Guard guard;
    if (depth == 0) throw std::runtime_error(std::string(50, 'e'));
    std::vector<int> numbers(static_cast<size_t>(depth), depth);
    return descend(depth - 1) + numbers[0];
}

static void throw_and_catch() {
    int caught = 0;
    for (int i = 0; i < 500; i++) {
        try {
            descend(i % 30);
        } catch (const std::runtime_error &e) {
            caught += std::strlen(e.what()) == 50;
        }
    }
    std::printf("caught %d, made %d, gone %d\n", caught, made, gone);
}

// Through more stack frames than a backtrace holds, some of which catch and throw on.
static int fall(int depth) {
    Guard guard;
    if (depth == 0) throw std::runtime_error("from far below");
    if (depth % 100) return fall(depth - 1) + static_cast<int>(guard.text.size());
    try {
        return fall(depth - 1) + 1;
    } catch (const std::runtime_error &) {
        std::vector<int> more(100, depth);
        throw;
    }
}

static void throw_far() {
    int caught = 0;
    for (int i = 0; i < 20; i++) {
        try {
            fall(1000);
        } catch (const std::exception &) {
            caught++;
        }
    }
    std::printf("caught %d, made %d, gone %d\n", caught, made, gone);
}

static void bad_alloc() {
    int caught = 0;
    for (int i = 0; i < 200; i++) {
        try {
            Guard guard;
            void *volatile p;
            switch (i % 4) {
            case 0: p = ::operator new(huge); break;
            case 1: p = ::operator new[](huge); break;
            case 2: p = ::operator new(huge, std::align_val_t{64}); break;
            default: p = ::operator new[](huge, std::align_val_t{64}); break;
            }
            ::operator delete(p);
        } catch (const std::bad_alloc &) {
            caught++, refused++;
        }
    }
    std::printf("caught %d, made %d, gone %d\n", caught, made, gone);
}

// The handler may throw what it likes, through operator new.
struct OutOfBudget : std::bad_alloc {
    std::string why = std::string(60, 'w');
};

// The handler gives a reserve back, and the request is met after all. Refused is what the
// limit on address space leaves no room for.
static void *reserve;

static void reserve_is_given_back() {
    constexpr std::size_t MIB = 1 << 20;
    static int calls;
    int met = 0;
    std::set_new_handler([] {
        calls++;
        std::string note(500, 'n');
        std::free(reserve);
        reserve = nullptr;
        if (note.size() == 500) std::set_new_handler(nullptr);
    });
    reserve = std::malloc(1024 * MIB);
    std::FILE *size = std::fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    if (!size || std::fscanf(size, "%lu", &pages) != 1) std::abort();
    std::fclose(size);
    rlimit limit = {pages * 4096 + 256 * MIB, RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &limit);
    char *block = static_cast<char *>(::operator new(900 * MIB));
    met += block != nullptr;
    block[0] = 1;
    ::operator delete(block);
    std::printf("met %d after %d calls, reserve %p\n", met, calls, reserve);
}

// A form that throws nothing asks the handler too, and takes its exception for a refusal.
static void nothing_thrown() {
    static int calls;
    int nulls = 0;
    std::set_new_handler([] {
        calls++;
        std::vector<char> allocates(100);
        if (allocates[0] == 0) throw OutOfBudget();
    });
    for (int i = 0; i < 200; i++) {
        Guard guard;
        void *volatile p;
        switch (i % 4) {
        case 0: p = ::operator new(huge, std::nothrow); break;
        case 1: p = ::operator new[](huge, std::nothrow); break;
        case 2: p = ::operator new(huge, std::align_val_t{64}, std::nothrow); break;
        default: p = ::operator new[](huge, std::align_val_t{64}, std::nothrow); break;
        }
        nulls += !p, refused += !p;
        ::operator delete(p, std::nothrow);
    }
    std::printf("null %d times after %d calls, made %d, gone %d\n", nulls, calls, made, gone);
}

static void new_handler() {
    int caught = 0;
    std::set_new_handler([] {
        std::vector<char> allocates(1000);
        if (allocates[0] == 0) throw OutOfBudget();
    });
    for (int i = 0; i < 100; i++) {
        try {
            Guard guard;
            ::operator delete(::operator new(huge));
        } catch (const OutOfBudget &e) {
            caught += e.why.size() == 60, refused++;
        }
    }
    // A constructor that throws: the compiler calls the matching delete.
    struct Thrower {
        char room[200];
        Thrower() { throw 7; }
    };
    for (int i = 0; i < 100; i++) {
        try {
            delete new Thrower;
        } catch (int seven) {
            caught += seven == 7;
        }
    }
    std::printf("caught %d, made %d, gone %d\n", caught, made, gone);
}

// Jumps over stack frames that hold nothing but memory of their own.
static std::jmp_buf back;
static volatile bool jumping = true;

static void jump_from(int depth) {
    void *volatile kept = std::malloc(static_cast<size_t>(64 + depth));
    std::free(kept);
    if (depth > 0) jump_from(depth - 1);
    if (jumping) std::longjmp(back, 1);
    std::free(std::malloc(10));
}

static void jumps() {
    volatile int landed = 0;
    for (volatile int i = 0; i < 500; i = i + 1) {
        if (setjmp(back) == 0) jump_from(i % 40);
        landed = landed + 1;
        void *volatile after = std::malloc(128);
        std::free(after);
    }
    std::printf("landed %d times\n", landed);
}

static void on_threads() {
    std::vector<std::thread> threads;
    std::vector<int> caught(8);
    std::atomic<int> refusals(0);
    for (int t = 0; t < 8; t++)
        threads.emplace_back([t, &caught, &refusals] {
            for (int i = 0; i < 300; i++) {
                try {
                    std::string text(static_cast<size_t>(50 + i), 't');
                    if (i % 3 == 0) throw std::runtime_error(text);
                    if (i % 3 == 1) ::operator delete(::operator new(huge));
                } catch (const std::bad_alloc &) {
                    caught[static_cast<size_t>(t)]++, refusals++;
                } catch (const std::exception &) {
                    caught[static_cast<size_t>(t)]++;
                }
            }
        });
    int sum = 0;
    for (auto &thread : threads) thread.join();
    for (int one : caught) sum += one;
    refused = refusals;
    std::printf("caught %d on 8 threads\n", sum);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "throw";
    if (!std::strcmp(mode, "throw")) throw_and_catch();
    if (!std::strcmp(mode, "far")) throw_far();
    if (!std::strcmp(mode, "bad_alloc")) bad_alloc();
    if (!std::strcmp(mode, "reserve")) reserve_is_given_back();
    if (!std::strcmp(mode, "nothrow")) nothing_thrown();
    if (!std::strcmp(mode, "handler")) new_handler();
    if (!std::strcmp(mode, "longjmp")) jumps();
    if (!std::strcmp(mode, "threads")) on_threads();
    std::printf("{\"failed_allocations\":%d}\n", refused);
    return 6;
}
