// Each form of operator new and delete once, each with a size of its own.
#include <cstdint>
#include <cstring>
#include <memory_resource>
#include <new>
#include <string>
#include <vector>
#include "steps.h"

static const std::align_val_t A64{64}, A4096{4096};
static void *p;
static volatile size_t huge = SIZE_MAX / 2;

static bool aligned(std::align_val_t align) {
    return reinterpret_cast<uintptr_t>(p) % static_cast<size_t>(align) == 0;
}

static void plain() {
    ALLOCATES("new", "new", 2001, p = ::operator new(2001));
    DEALLOCATES("delete", "delete", ::operator delete(p));
    ALLOCATES("new[]", "new[]", 2002, p = ::operator new[](2002));
    DEALLOCATES("delete[]", "delete[]", ::operator delete[](p));
    ALLOCATES("new nothrow", "new nothrow", 2003, p = ::operator new(2003, std::nothrow));
    DEALLOCATES("delete nothrow", "delete nothrow", ::operator delete(p, std::nothrow));
    ALLOCATES("new[] nothrow", "new[] nothrow", 2004, p = ::operator new[](2004, std::nothrow));
    DEALLOCATES("delete[] nothrow", "delete[] nothrow", ::operator delete[](p, std::nothrow));
    p = ::operator new(2005);
    DEALLOCATES("delete sized", "delete sized", ::operator delete(p, 2005));
    p = ::operator new[](2006);
    DEALLOCATES("delete[] sized", "delete[] sized", ::operator delete[](p, 2006));
    ALLOCATES("new of nothing", "new", 0, p = ::operator new(0));
    DEALLOCATES("delete of nothing", "delete", ::operator delete(p));
    NOTHING("delete of null", ::operator delete(nullptr));
    NOTHING("delete[] of null", ::operator delete[](nullptr));
}

static void over_aligned(std::align_val_t align, size_t size) {
    ALLOCATES("new aligned", "new aligned", static_cast<long>(size), p = ::operator new(size, align));
    REQUIRE(aligned(align));
    DEALLOCATES("delete aligned", "delete aligned", ::operator delete(p, align));
    ALLOCATES("new[] aligned", "new[] aligned", static_cast<long>(size + 1), p = ::operator new[](size + 1, align));
    REQUIRE(aligned(align));
    DEALLOCATES("delete[] aligned", "delete[] aligned", ::operator delete[](p, align));
    ALLOCATES("new aligned nothrow", "new aligned nothrow", static_cast<long>(size + 2),
              p = ::operator new(size + 2, align, std::nothrow));
    REQUIRE(aligned(align));
    DEALLOCATES("delete aligned nothrow", "delete aligned nothrow", ::operator delete(p, align, std::nothrow));
    ALLOCATES("new[] aligned nothrow", "new[] aligned nothrow", static_cast<long>(size + 3),
              p = ::operator new[](size + 3, align, std::nothrow));
    REQUIRE(aligned(align));
    DEALLOCATES("delete[] aligned nothrow", "delete[] aligned nothrow",
                ::operator delete[](p, align, std::nothrow));
    p = ::operator new(size + 4, align);
    DEALLOCATES("delete sized aligned", "delete sized aligned", ::operator delete(p, size + 4, align));
    p = ::operator new[](size + 5, align);
    DEALLOCATES("delete[] sized aligned", "delete[] sized aligned", ::operator delete[](p, size + 5, align));
}

// As the compiler writes the calls.
struct alignas(64) Line { char bytes[64]; };
struct Named { std::string name; ~Named() {} };

static void expressions() {
    int *volatile number;
    ALLOCATES("new int", "new", sizeof(int), number = new int(7));
    DEALLOCATES("delete of an int", "delete sized", delete number);
    Line *volatile line;
    ALLOCATES("new of an over-aligned type", "new aligned", 64, line = new Line);
    DEALLOCATES("delete of an over-aligned type", "delete sized aligned", delete line);
    // An array of a type with a destructor begins with its length.
    Named *volatile names;
    ALLOCATES("new array", "new[]", 8 + 5 * sizeof(Named), names = new Named[5]);
    DEALLOCATES("delete of an array", "delete[] sized", delete[] names);
    std::vector<char> *volatile letters = new std::vector<char>;
    ALLOCATES("a vector reserves", "new", 2050, letters->reserve(2050));
    letters->push_back('x');
    STEP_WITH("a vector grows", "", 1, 0, 1, 0, 2060, 0, letters->reserve(2060));
    delete letters;
    ALLOCATES("memory resource", "new aligned", 2070, p = std::pmr::new_delete_resource()->allocate(2070, 64));
    DEALLOCATES("memory resource gives back", "delete sized aligned",
                std::pmr::new_delete_resource()->deallocate(p, 2070, 64));
}

static int handler_calls;
static void give_up() {
    handler_calls++;
    std::set_new_handler(nullptr);
}

template <typename Call> static bool throws(Call call) {
    try {
        call();
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

// The exception's own memory comes from malloc and goes back to free.
#define THROWS(name, ...) STEP_WITH(name, "", ANY, 0, ANY, 1, ANY, 0, REQUIRE(throws([] { __VA_ARGS__; })))

static void failing() {
    THROWS("new throws", p = ::operator new(huge));
    THROWS("new[] throws", p = ::operator new[](huge));
    THROWS("new aligned throws", p = ::operator new(huge, A64));
    THROWS("new[] aligned throws", p = ::operator new[](huge, A4096));
    p = &p;
    STEP_WITH("new nothrow fails", "", ANY, 0, ANY, 1, ANY, 0, p = ::operator new(huge, std::nothrow));
    REQUIRE(!p);
    p = &p;
    STEP_WITH("new[] aligned nothrow fails", "", ANY, 0, ANY, 1, ANY, 0,
              p = ::operator new[](huge, A64, std::nothrow));
    REQUIRE(!p);
    std::set_new_handler(give_up);
    THROWS("new asks its handler", p = ::operator new(huge));
    REQUIRE(handler_calls == 1);
    // Recording goes on as before.
    ALLOCATES("new after bad_alloc", "new", 2080, p = ::operator new(2080));
    DEALLOCATES("delete after bad_alloc", "delete", ::operator delete(p));
}

int main() {
    plain();
    over_aligned(A64, 2100);
    over_aligned(A4096, 2200);
    expressions();
    failing();
    print_steps();
}
