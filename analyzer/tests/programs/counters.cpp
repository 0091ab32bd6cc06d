/* The same in C++, whose operators count once. */
#include <new>
#include "counters.c"
