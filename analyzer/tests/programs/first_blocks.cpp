// Where the first blocks of a C++ program lie, from those of static objects on.
#include <cstdio>
#include <string>
#include <vector>

static std::string early(100, 'e');
static std::vector<int> numbers(300);

int main() {
    std::string later(500, 'l');
    std::vector<double> more(200);
    const char *blocks[] = {early.data(), reinterpret_cast<char *>(numbers.data()), later.data(),
                            reinterpret_cast<char *>(more.data())};
    for (const char *block : blocks) std::printf("%ld\n", static_cast<long>(block - early.data()));
}
