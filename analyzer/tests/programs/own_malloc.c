/* Brings its own malloc within the executable: no preloaded library can see its calls. */
#include "bump.h"
#include <stdio.h>

int main(void) {
    unsigned long before = bump_calls;
    char *texts[100];
    for (int i = 0; i < 100; i++) texts[i] = strdup("calls of this program's own malloc");
    for (int i = 0; i < 100; i++) free(texts[i]);
    printf("own malloc: %lu calls\n", bump_calls - before);
    return 9;
}
