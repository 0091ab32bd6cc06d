/* Starts a program and ends before it begins, as launchers do.
 * usage: launcher PROGRAM [arguments] */
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int gone[2];
    char byte;
    char *volatile block = malloc(100);
    free(block);
    if (argc < 2 || pipe(gone)) return 2;
    pid_t child = fork();
    if (child < 0) return 2;
    if (child > 0) return 0; /* and with it the only writing end of the pipe */
    close(gone[1]);
    setsid();
    while (read(gone[0], &byte, 1) > 0) {}
    close(gone[0]);
    execv(argv[1], argv + 1);
    return 127;
}
