/* A small game: allocates in each frame, says what it did, ends as it is told.
 * usage: game [exit code] [frames] [text]; a process to be found behind scripts and launchers. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "marks.h"

void heapreel_frame(void) __attribute__((weak, noplt));

enum { LABELS = 40 };

static unsigned frame(unsigned number) {
    char *labels[LABELS];
    unsigned sum = 0;
    for (unsigned i = 0; i < LABELS; i++) {
        labels[i] = malloc(16 + (number + i) % 48);
        labels[i][0] = (char)(number + i);
    }
    for (unsigned i = 0; i < LABELS; i++) {
        sum += (unsigned char)labels[i][0];
        free(labels[i]);
    }
    if (heapreel_frame) heapreel_frame();
    return sum;
}

int main(int argc, char **argv) {
    int code = argc > 1 ? atoi(argv[1]) : 0;
    unsigned frames = argc > 2 ? (unsigned)atoi(argv[2]) : 100, sum = 0;
    for (unsigned i = 0; i < frames; i++) sum += frame(i);
    const char *variable = getenv("GAME_TEXT");
    printf("game: %u frames, sum %u, text %s, variable %s\n", frames, sum, argc > 3 ? argv[3] : "-",
           variable ? variable : "-");
    return code;
}
