/* Libraries that show pictures, as far as a program can tell: each call of show counts. */
#ifndef PICTURES_H
#define PICTURES_H

typedef void (*function)(void);

/* As SDL, which asks GLX for the picture to be shown. */
void SDL_RenderPresent(void *renderer);
/* As GLX. */
void glXSwapBuffers(void *display, unsigned long drawable);
function glXGetProcAddressARB(const unsigned char *name);
/* As Vulkan: the function is nowhere to be had but from these. */
function vkGetInstanceProcAddr(void *instance, const char *name);
function vkGetDeviceProcAddr(void *device, const char *name);
/* A game's own, with arguments of every kind. */
double game_frame(int a, double b, long c, float d, const char *e, long f, long g, long h, long i, double j);
/* How often a picture was shown. */
long shown(void);

#endif
