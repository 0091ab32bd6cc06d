/* Prints the address that its caller returns to, as it stands in the ELF file. */
#include <stdio.h>
#include <stdlib.h>

extern char __ehdr_start;

__attribute__((noinline)) void probe(const char *name) {
    char *address = __builtin_return_address(0);
    printf("%s %lx\n", name, (unsigned long)(address - &__ehdr_start));
}

__attribute__((noinline, noreturn)) void probe_and_exit(const char *name) {
    char *address = __builtin_return_address(0);
    printf("%s %lx\n", name, (unsigned long)(address - &__ehdr_start));
    exit(0);
}
