/* A library that comes and goes: see reload.c. */
#include <stdlib.h>

__attribute__((visibility("default"))) void *plugin_make(size_t size) {
    void *volatile block = malloc(size);
    return block;
}
