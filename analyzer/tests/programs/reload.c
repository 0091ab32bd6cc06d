/* Loads, uses and unloads a library again and again; its blocks outlive it.
 * usage: reload LIBRARY [times]; prints one JSON line. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    int times = argc > 2 ? atoi(argv[2]) : 1000;
    void *kept[64] = {0};
    if (argc < 2) return 2;
    for (int i = 0; i < times; i++) {
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        if (!library) return 3;
        void *(*make)(size_t);
        *(void **)&make = dlsym(library, "plugin_make");
        free(kept[i % 64]);
        kept[i % 64] = make(70007);
        memset(kept[i % 64], 1, 16);
        dlclose(library);
    }
    printf("{\"times\":%d,\"live_blocks\":64,\"block_size\":70007}\n", times);
    return 0;
}
