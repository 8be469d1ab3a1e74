/* A program without OpenMP: the library leaves no error in dlerror() that the program could take for its own. */
#include <dlfcn.h>

#include "../support/check.h"

int main(void)
{
    const char *error = dlerror();
    CHECK(!error, "%s", error);
    return 0;
}
