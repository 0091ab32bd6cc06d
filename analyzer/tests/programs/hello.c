/* Nothing to record: linked statically, or run as another user, it is refused. */
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    void *volatile p = malloc(100);
    free(p);
    puts("hello");
    return 0;
}
