/* Becomes a daemon as they do: two forks, a session of its own, no descriptor left. The
 * process that was started takes the orphan in and tells what became of it.
 *
 * usage: daemon loop|range|from, by which all descriptors are closed. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "marks.h"

enum { LINES = 3000 };
static char name[] = "/tmp/daemon-XXXXXX";

static void close_everything(const char *how) {
    if (!strcmp(how, "range")) close_range(0, ~0u, 0);
    if (!strcmp(how, "from")) closefrom(0);
    for (int i = 0; i < 1024; i++) close(i);
}

/* The file gets the first number; whoever still writes to a number of his own hits it. */
static int serve(void) {
    int file = open(name, O_RDWR | O_TRUNC);
    mark("daemon begin");
    for (int i = 0; i < LINES; i++) {
        char *volatile line = malloc(100);
        int length = snprintf(line, 100, "%07d\n", i);
        if (write(file, line, (size_t)length) != length) return 98;
        line = realloc(line, 5000);
        free(line);
    }
    mark("daemon end");
    return file == 0 ? 13 : 97;
}

static int lines_intact(void) {
    FILE *file = fopen(name, "r");
    char line[100];
    int intact = 0;
    while (file && fgets(line, sizeof line, file)) intact += atoi(line) == intact && strlen(line) == 8;
    if (file) fclose(file);
    unlink(name);
    return intact;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "loop";
    int status, launched, served;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    close(mkstemp(name));
    free(malloc(100));
    pid_t launcher = fork();
    if (launcher == 0) {
        setsid();
        if (fork() > 0) _exit(11);
        umask(0);
        if (chdir("/")) _exit(96);
        close_everything(how);
        exit(serve());
    }
    waitpid(launcher, &status, 0);
    launched = WEXITSTATUS(status);
    while (waitpid(-1, &status, 0) > 0) {}
    served = WEXITSTATUS(status);
    printf("launcher %d, daemon %d, %d lines intact\n", launched, served, lines_intact());
    printf("{\"allocations\":%d,\"reallocations\":%d,\"deallocations\":%d,\"requested_bytes\":%d}\n",
           LINES, LINES, LINES, LINES * 5100);
    return 0;
}
