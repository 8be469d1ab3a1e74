/* A program without OpenMP: the library leaves nothing behind that the program could take for an error of its own. */
#include <dlfcn.h>

#include "../support/check.h"

int main(void)
{
    const char *error = dlerror();
    CHECK(!error, "%s", error);
    return 0;
}
