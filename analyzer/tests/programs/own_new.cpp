// Replaces operator new, as games do, and asks malloc for the memory.
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>
#include "marks.h"

static unsigned long news, deletes;

void *operator new(std::size_t size) {
    news++;
    if (void *p = malloc(size + 32)) return static_cast<char *>(p) + 32;
    throw std::bad_alloc();
}
void operator delete(void *block) noexcept {
    if (!block) return;
    deletes++;
    free(static_cast<char *>(block) - 32);
}
void operator delete(void *block, std::size_t) noexcept { operator delete(block); }

int main() {
    mark("own begin");
    {
        std::vector<std::string> names;
        for (int i = 0; i < 200; i++) names.push_back(std::string(static_cast<size_t>(40 + i), 'n'));
        delete new int(3);
    }
    mark("own end");
    std::printf("{\"allocations\":%lu,\"deallocations\":%lu}\n", news, deletes);
    return 8;
}
