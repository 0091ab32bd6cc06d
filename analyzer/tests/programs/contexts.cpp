// Contexts as scopes of C++: nested, left by an exception, carried to a thread.
#include "../../../recorder/include/heapreel.h"
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>

static char *kept[16];
static int count_of_kept;

static void keep(std::size_t bytes) {
    kept[count_of_kept++] = new char[bytes];
}

static uint64_t load(const std::string &name) {
    HEAPREEL_CONTEXT("asset", "%s", name.c_str());
    keep(2000);
    return HEAPREEL_CONTEXT_CURRENT();
}

static void fail(int number) {
    HEAPREEL_CONTEXT("system", "loader %d", number);
    keep(30);
    throw std::runtime_error("no such file");
}

int main() {
    HEAPREEL_MARK("begin");
    {
        HEAPREEL_CONTEXT("level", "forest");
        keep(1000);
        uint64_t rock = load("rock");
        try {
            fail(3);
        } catch (const std::runtime_error &) {
        }
        keep(1);
        std::thread job([rock] {
            HEAPREEL_CONTEXT_RESUME(rock);
            keep(500);
        });
        job.join();
    }
    keep(7);
    HEAPREEL_MARK("end");
    std::puts("done");
    return 7;
}
