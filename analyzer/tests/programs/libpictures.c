/* See pictures.h. */
#include "pictures.h"

#include <string.h>

static long count;

void glXSwapBuffers(void *display, unsigned long drawable) {
    (void)display, (void)drawable;
    count++;
}

/* Another function than the one that is exported, as the real ones give. */
static void swap_inside(void *display, unsigned long drawable) {
    (void)display, (void)drawable;
    count++;
}

function glXGetProcAddressARB(const unsigned char *name) {
    return strcmp((const char *)name, "glXSwapBuffers") == 0 ? (function)swap_inside : 0;
}

void SDL_RenderPresent(void *renderer) {
    glXSwapBuffers(renderer, 7);
}

static int queue_present(void *queue, const void *info) {
    (void)queue, (void)info;
    count++;
    return 42;
}

function vkGetDeviceProcAddr(void *device, const char *name) {
    (void)device;
    return strcmp(name, "vkQueuePresentKHR") == 0 ? (function)queue_present : 0;
}

function vkGetInstanceProcAddr(void *instance, const char *name) {
    (void)instance;
    return strcmp(name, "vkGetDeviceProcAddr") == 0 ? (function)vkGetDeviceProcAddr : 0;
}

double game_frame(int a, double b, long c, float d, const char *e, long f, long g, long h, long i, double j) {
    return a + b + (double)c + (double)d + (double)strlen(e) + (double)(f + g + h + i) + j;
}

long shown(void) {
    return count;
}
