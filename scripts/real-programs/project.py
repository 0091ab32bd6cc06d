"""A small C and C++ project of several files, and a Makefile, made on the spot."""

import os

UNITS = 4
C_UNIT = """#include "unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct node {{ struct node *left, *right; long key; }};
static struct node *insert(struct node *node, long key) {{
    if (!node) {{
        node = calloc(1, sizeof *node);
        node->key = key;
    }} else if (key < node->key)
        node->left = insert(node->left, key);
    else
        node->right = insert(node->right, key);
    return node;
}}
static long sum(const struct node *node) {{ return node ? node->key + sum(node->left) + sum(node->right) : 0; }}
long unit{number}(long seed) {{
    struct node *tree = NULL;
    for (long i = 0; i < 100; i++)
        tree = insert(tree, (i * 7919 + seed) % 101);
    return sum(tree) * {number};
}}
"""
CPP_UNIT = """#include "unit.h"
#include <map>
#include <string>
#include <vector>
#include <algorithm>
long named() {
    std::map<std::string, std::vector<long>> all;
    for (long i = 0; i < 50; i++)
        all[std::to_string(i % 7)].push_back(i);
    long sum = 0;
    for (auto &[name, values] : all) {
        std::sort(values.rbegin(), values.rend());
        sum += static_cast<long>(name.size()) * values.front();
    }
    return sum;
}
"""
MAIN = """#include "unit.h"
#include <stdio.h>
int main(void) {{
    long sum = named();
{calls}
    printf("%ld\\n", sum);
    return 0;
}}
"""
HEADER = """#ifdef __cplusplus
extern "C" {{
#endif
{declarations}
long named(void);
#ifdef __cplusplus
}}
#endif
"""
# No search for dates or paths that differ: objects must be equal byte for byte.
MAKEFILE = """CFLAGS = -O2 -Wall
CXXFLAGS = -O2 -Wall -std=c++17
OBJECTS = {objects}
all: library.a program
\t./program
program: $(OBJECTS)
\tg++ -o $@ $(OBJECTS)
library.a: $(OBJECTS)
\tar rcsD $@ $(OBJECTS)
%.o: %.c unit.h
\tgcc $(CFLAGS) -c -o $@ $<
%.o: %.cpp unit.h
\tg++ $(CXXFLAGS) -c -o $@ $<
"""

OBJECTS = [f"unit{number}.o" for number in range(UNITS)] + ["named.o", "main.o"]
PRODUCTS = [*OBJECTS, "library.a", "program"]


def write(folder):
    """Writes the project into a folder."""
    numbers = range(UNITS)
    calls = "\n".join(f"    sum += unit{number}({number});" for number in numbers)
    declarations = "\n".join(f"long unit{number}(long seed);" for number in numbers)
    files = {f"unit{number}.c": C_UNIT.format(number=number) for number in numbers}
    files["named.cpp"] = CPP_UNIT
    files["main.c"] = MAIN.format(calls=calls)
    files["unit.h"] = HEADER.format(declarations=declarations)
    files["Makefile"] = MAKEFILE.format(objects=" ".join(OBJECTS))
    for name, text in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
