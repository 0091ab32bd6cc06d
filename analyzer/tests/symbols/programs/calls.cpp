// C++ names and inlined levels. A "MARK:" names the line it stands on.
#include <string>
#include <vector>

extern "C" void probe(const char *name);

volatile int kept;

namespace game {

template <typename Key> struct Cache {
    __attribute__((always_inline)) inline void fill(Key) {
        probe("inlined"); // MARK: fill
        kept = kept + 1;
    }
};

struct TerrainTile {
    __attribute__((always_inline)) inline void decode(int level) {
        Cache<std::vector<int>> cache;
        cache.fill(std::vector<int>()); // MARK: decode
        kept = kept + level;
    }
    __attribute__((noinline)) void load(const std::string &name) {
        decode(3); // MARK: load
        kept = kept + static_cast<int>(name.size());
    }
};

namespace {
__attribute__((noinline)) void hidden() {
    probe("hidden"); // MARK: hidden
    kept = kept + 1;
}
} // namespace

} // namespace game

int main() {
    game::TerrainTile tile;
    tile.load("forest");
    game::hidden();
    auto spawn = [](int count) __attribute__((noinline)) {
        probe("lambda"); // MARK: lambda
        kept = kept + count;
    };
    spawn(2);
}
