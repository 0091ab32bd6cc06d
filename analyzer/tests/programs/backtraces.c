/* Allocates from as many different backtraces as it is told, twice from each.
 * usage: backtraces [count]; prints the number of allocations.
 *
 * A backtrace is a number: each of its bits chooses which of two functions calls on. */
#include <stdio.h>
#include <stdlib.h>

enum { BITS = 20 };

__attribute__((noinline)) static void leaf(unsigned number) {
    char *volatile block = malloc(16 + number % 64);
    block[0] = (char)number;
    free(block);
    __asm__ volatile("");
}

static void descend(unsigned number, int bits);

__attribute__((noinline)) static void zero(unsigned number, int bits) {
    descend(number >> 1, bits - 1);
    __asm__ volatile("");
}

__attribute__((noinline)) static void one(unsigned number, int bits) {
    descend(number >> 1, bits - 1);
    __asm__ volatile("");
}

__attribute__((noinline)) static void descend(unsigned number, int bits) {
    if (bits == 0)
        leaf(number);
    else if (number & 1)
        one(number, bits);
    else
        zero(number, bits);
    __asm__ volatile("");
}

int main(int argc, char **argv) {
    unsigned count = argc > 1 ? (unsigned)atoi(argv[1]) : 1000;
    volatile int rounds = 2; /* so that both make the same calls */
    for (int round = 0; round < rounds; round++)
        for (unsigned number = 0; number < count; number++) descend(number, BITS);
    printf("%u allocations\n", 2 * count);
    return 0;
}
