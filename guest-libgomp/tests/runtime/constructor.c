/* A library is loaded whose constructor runs a region. The argument is the library. */
#include <dlfcn.h>

#include "../support/check.h"

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(library, "%s", dlerror());
    const int *threads = dlsym(library, "outer_threads");
    CHECK(threads && *threads >= 1);
    return 0;
}
