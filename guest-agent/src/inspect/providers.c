#include "inspect/providers.h"

#include <stddef.h>
#include <string.h>

bool provider_named(const char *path)
{
    /* Each is followed by a version, or by nothing. libc-2.31.so: what older distributions call it. */
    static const char *const names[] = {"libc.so",        "libm.so",        "libstdc++.so", "libgcc_s.so",
                                        "libgomp.so",     "libgfortran.so", "libomp.so",    "libquadmath.so",
                                        "libpthread.so",  "libdl.so",       "librt.so",     "libvscaf-gomp.so",
                                        "ld-linux-x86-64.so", "ld-linux-aarch64.so"};
    static const char *const older[] = {"libc-2.", "libm-2.", "ld-2.", "libpthread-2.", "libdl-2.", "librt-2."};
    const char *name = strrchr(path, '/');
    name = name != NULL ? name + 1 : path;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        size_t length = strlen(names[i]);
        if (strncmp(name, names[i], length) == 0 && (name[length] == '\0' || name[length] == '.'))
            return true;
    }
    for (size_t i = 0; i < sizeof(older) / sizeof(*older); i++)
        if (strncmp(name, older[i], strlen(older[i])) == 0)
            return true;
    return false;
}
