/* Shows pictures in one of the ways in which games do: usage: pictures WAY [LIBRARY] */
#define _GNU_SOURCE
#include "../../../recorder/include/heapreel.h"
#include "pictures.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PICTURES = 30 };

static void work(void) {
    void *volatile block = malloc(100);
    free(block);
}

#ifdef LINKED
static void linked(void) {
    for (int i = 0; i < PICTURES; i++) {
        work();
        SDL_RenderPresent(0);
    }
}

/* The game says where its frames end, half as many as there are pictures. */
static void own(void) {
    for (int i = 0; i < PICTURES; i++) {
        work();
        SDL_RenderPresent(0);
        if (i % 2 == 1)
            heapreel_frame_mark(0);
    }
}

static int asked(void) {
    double sum = 0;
    for (int i = 0; i < PICTURES; i++) {
        work();
        sum += game_frame(i, 0.5, 2, 0.25f, "four", 5, 6, 7, 8, 0.125);
        SDL_RenderPresent(0);
    }
    /* 0 to 29, and 32.875 each time. */
    return sum == 435 + PICTURES * 32.875 ? 0 : 3;
}
#else
static void *library(const char *path) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    return handle;
}

static void loaded(const char *path) {
    void (*present)(void *) = (void (*)(void *))dlsym(library(path), "SDL_RenderPresent");
    for (int i = 0; i < PICTURES; i++) {
        work();
        present(0);
    }
}

static void given(const char *path) {
    function (*get)(const unsigned char *) =
        (function(*)(const unsigned char *))dlsym(library(path), "glXGetProcAddressARB");
    void (*swap)(void *, unsigned long) =
        (void (*)(void *, unsigned long))get((const unsigned char *)"glXSwapBuffers");
    for (int i = 0; i < PICTURES; i++) {
        work();
        swap(0, 1);
    }
}

static int vulkan(const char *path) {
    typedef function (*getter)(void *, const char *);
    getter instance = (getter)dlsym(library(path), "vkGetInstanceProcAddr");
    getter device = (getter)instance(0, "vkGetDeviceProcAddr");
    int (*present)(void *, const void *) = (int (*)(void *, const void *))device(0, "vkQueuePresentKHR");
    if (device(0, "vkCreateFence") || instance(0, "vkNoSuch"))
        return 4;
    int sum = 0;
    for (int i = 0; i < PICTURES; i++) {
        work();
        sum += present(0, 0);
    }
    return sum == 42 * PICTURES ? 0 : 5;
}

/* A game that looks which library is there must find none. */
static int absent(void) {
    return dlsym(RTLD_DEFAULT, "SDL_RenderPresent") || dlsym(RTLD_DEFAULT, "glXSwapBuffers") ? 6 : 0;
}
#endif

int main(int argc, char **argv) {
    const char *way = argc > 1 ? argv[1] : "";
#ifdef LINKED
    if (strcmp(way, "linked") == 0)
        return linked(), shown() == PICTURES ? 0 : 7;
    if (strcmp(way, "own") == 0)
        return own(), 0;
    if (strcmp(way, "asked") == 0)
        return asked();
#else
    const char *path = argc > 2 ? argv[2] : "";
    if (strcmp(way, "loaded") == 0)
        return loaded(path), 0;
    if (strcmp(way, "given") == 0)
        return given(path), 0;
    if (strcmp(way, "vulkan") == 0)
        return vulkan(path);
    if (strcmp(way, "absent") == 0)
        return absent();
#endif
    return 2;
}
