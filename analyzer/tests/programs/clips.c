/* A game to make clips of: two threads hand blocks to each other, a block of 24 bytes lives
 * on from each frame, and at some frame it asks for a clip.
 * usage: clips FRAMES FRAME-OF-THE-CALL [abort|kill]; clips FRAMES until FILE sends SIGUSR1 to its
 * parent and plays on until that file is there. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "heapreel.h"

enum { BLOCKS = 50 };

static void *kept[100000];
static void *handed[BLOCKS];

static void *worker(void *unused) {
    (void)unused;
    for (int i = 0; i < BLOCKS; i++) {
        free(handed[i]);
        handed[i] = realloc(malloc(40), 400);
    }
    return NULL;
}

static void frame(int number) {
    for (int i = 0; i < BLOCKS; i++) handed[i] = malloc(100);
    pthread_t thread;
    pthread_create(&thread, NULL, worker, NULL);
    pthread_join(thread, NULL);
    for (int i = 0; i < BLOCKS; i++) free(handed[i]);
    kept[number] = malloc(24);
    HEAPREEL_FRAME_MARK();
}

int main(int argc, char **argv) {
    int frames = atoi(argv[1]), call = atoi(argv[2]);
    const char *awaited = argc > 3 && !strcmp(argv[2], "until") ? argv[3] : NULL;
    HEAPREEL_FRAME_MARK();
    for (int i = 1; i <= frames; i++) {
        frame(i);
        if (i == call) HEAPREEL_CLIP("boss");
    }
    if (awaited) {
        kill(getppid(), SIGUSR1);
        while (access(awaited, F_OK)) frame(0);
        return 4;
    }
    if (argc > 3) raise(strcmp(argv[3], "kill") ? SIGABRT : SIGKILL);
    return 3;
}
