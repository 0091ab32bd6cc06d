/* The malloc of bump.h as a library that a program links: below the preload library. */
#include "bump.h"
