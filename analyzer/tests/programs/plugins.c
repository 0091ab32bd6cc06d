/* Libraries that come and go, in every way that a program can load them.
 *
 * usage: plugins same|swap|runpath|deep|namespace FOLDER
 *   same       one library, a thousand times;
 *   swap       two in turn, a thousand times: each comes to lie where the other one lay;
 *   runpath    by a name alone, to be found by the program's RUNPATH; what it loads, by its own;
 *   deep       with RTLD_DEEPBIND: its calls prefer its own libraries to all others;
 *   namespace  with dlmopen, into a namespace with a C library of its own.
 * Prints one JSON line. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "marks.h"

enum { TIMES = 1000, KEPT = 64, WOLF = 2222, DEER = 3333, PROGRAM = 4444 };

static uint64_t allocations, deallocations, bytes;
static int met; /* libraries at the place of the other */

static void fail(void) {
    fprintf(stderr, "%s\n", dlerror());
    exit(3);
}

static void *loaded(const char *folder, const char *name, int flags) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    void *library = dlopen(path, flags);
    if (!library) fail();
    return library;
}

static void *function(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (!found) fail();
    return found;
}

static void *made(void *library, const char *name, size_t size) {
    void *(*make)(size_t);
    *(void **)&make = function(library, name);
    allocations++, bytes += size;
    return memset(make(size), 1, size);
}

static __attribute__((noinline)) void *of_the_program(size_t size) {
    void *volatile block = malloc(size);
    allocations++, bytes += size;
    return block;
}

static void *asked(void *library, const char *name, size_t size) {
    void *(*ask)(void *(*)(size_t), size_t);
    *(void **)&ask = function(library, name);
    return memset(ask(of_the_program, size), 1, size);
}

static void give_back(void *block) {
    if (block) deallocations++;
    free(block);
}

static void *base(void *address) {
    Dl_info info;
    return dladdr(address, &info) ? info.dli_fbase : NULL;
}

/* The last blocks of each library outlive it. */
static void in_turn(const char *folder, int libraries) {
    static const char *const names[2] = {"libwolf.so", "libdeer.so"}, *const makes[2] = {"wolf_make", "deer_make"};
    static void *kept[2][KEPT], *bases[2];
    for (int i = 0; i < TIMES; i++) {
        int which = i % libraries;
        void *library = loaded(folder, names[which], RTLD_NOW | RTLD_LOCAL);
        void **place = &kept[which][i / libraries % KEPT];
        give_back(*place);
        *place = made(library, makes[which], which ? DEER : WOLF);
        bases[which] = base(function(library, makes[which]));
        met += bases[0] == bases[1];
        dlclose(library);
    }
}

static void by_runpath(void) {
    for (int i = 0; i < KEPT; i++) {
        void *library = dlopen("libwolf.so", RTLD_NOW | RTLD_LOCAL);
        if (!library) fail();
        give_back(made(library, "wolf_make", WOLF));
        give_back(made(library, "wolf_pass_on", DEER));
        dlclose(library);
    }
}

/* The library's own calls go to its own C library; blocks of the program pass through it. */
static void apart(const char *folder, int deep) {
    char path[4096];
    snprintf(path, sizeof path, "%s/libwolf.so", folder);
    for (int i = 0; i < 20; i++) {
        void *library = deep ? dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND) : dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
        if (!library) fail();
        for (int j = 0; j < KEPT; j++) give_back(asked(library, "wolf_ask", PROGRAM));
        if (i == 0) of_the_program(PROGRAM);
        dlclose(library);
    }
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "same", *folder = argc > 2 ? argv[2] : ".";
    mark("plugins begin");
    if (!strcmp(mode, "same")) in_turn(folder, 1);
    if (!strcmp(mode, "swap")) in_turn(folder, 2);
    if (!strcmp(mode, "runpath")) by_runpath();
    if (!strcmp(mode, "deep")) apart(folder, 1);
    if (!strcmp(mode, "namespace")) apart(folder, 0);
    mark("plugins end");
    printf("{\"made\":%llu,\"freed\":%llu,\"met\":%d}\n", (unsigned long long)allocations,
           (unsigned long long)deallocations, met);
    return 0;
}
