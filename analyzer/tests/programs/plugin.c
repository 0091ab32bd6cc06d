/* A library that comes and goes: see plugins.c. Built more than once, with other names. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

#define JOINED(a, b) a##b
#define NAMED(animal, what) JOINED(animal, what)

/* A block of the library's own asking. */
__attribute__((visibility("default"))) void *NAMED(ANIMAL, _make)(size_t size) {
    void *volatile block = malloc(size);
    return block;
}

/* A block that the program makes for it. */
__attribute__((visibility("default"))) void *NAMED(ANIMAL, _ask)(void *(*program)(size_t), size_t size) {
    void *volatile block = program(size);
    return block;
}

/* A block of a library that only this one knows where to find. */
__attribute__((visibility("default"))) void *NAMED(ANIMAL, _pass_on)(size_t size) {
    void *library = dlopen("libdeer.so", RTLD_NOW | RTLD_LOCAL);
    void *(*make)(size_t);
    if (!library) abort();
    *(void **)&make = dlsym(library, "deer_make");
    void *volatile block = make(size);
    dlclose(library);
    return block;
}
