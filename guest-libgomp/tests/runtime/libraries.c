/* Libraries that are loaded while the program runs: libraries replaced|many FIRST SECOND
 *
 * replaced: a library without a build-id is unloaded, its file is replaced, and it is loaded again, at the same place.
 * Its code has new sites, because what was found in the old code may be wrong. If the file is the same, the sites are
 * too. many: 300 libraries are loaded, and all are remembered. The arguments are the files to load.
 */
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "../support/check.h"
#include "join/program.h"
#include "runtime/call_site.h"

#define LOADS_MAX 100
#define LIBRARIES 300

struct load {
    void *handle; /* a link map, in glibc */
    void *address;
    struct call_site *site;
};

static char directory[] = "/tmp/vscaf-libraries-XXXXXX";
static char path[64], next_path[64];

void program_note(uint32_t bits)
{
    (void)bits;
}

static void install(const char *from)
{
    char bytes[4096];
    size_t count;
    FILE *source = fopen(from, "rb"), *copy = fopen(next_path, "wb");
    CHECK(source && copy, "%s", from);
    while ((count = fread(bytes, 1, sizeof bytes, source)) > 0)
        CHECK(fwrite(bytes, 1, count, copy) == count);
    CHECK(fclose(source) == 0 && fclose(copy) == 0 && rename(next_path, path) == 0);
}

/* Loads the library and looks its code up. */
static struct load load(int value)
{
    static struct call_site_spare spare;
    struct load load = {.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    CHECK(load.handle, "%s", dlerror());
    load.address = dlsym(load.handle, "libraries_value");
    int (*function)(void);
    CHECK(load.address);
    memcpy(&function, &load.address, sizeof function);
    CHECK(function() == value);
    load.site = call_site_of(load.address, &spare);
    CHECK(load.site != &spare.site, "it is not remembered");
    CHECK(atomic_load(&load.site->object)->build_id == 0, "the library must have no build-id");
    return load;
}

static struct load load_and_unload(int value)
{
    struct load loaded = load(value);
    dlclose(loaded.handle);
    object_check_unloads();
    return loaded;
}

static bool same_place(const struct load *one, const struct load *other)
{
    return one->handle == other->handle && one->address == other->address;
}

static int check_replaced(const char *first_file, const char *second_file)
{
    bool kept = false, replaced = false;
    for (int i = 0; i < LOADS_MAX && !(kept && replaced); i++) {
        install(first_file);
        struct load first = load_and_unload(1), again = load_and_unload(1);
        install(second_file);
        struct load second = load_and_unload(2);
        if (same_place(&first, &again)) {
            CHECK(first.site == again.site, "the file is the same");
            kept = true;
        }
        if (same_place(&again, &second)) {
            CHECK(again.site != second.site, "the file is another one");
            replaced = true;
        }
    }
    return kept && replaced ? 0 : 77; /* this system does not load at the same place */
}

static int check_many(const char *file)
{
    const void *last = NULL;
    for (int i = 0; i < LIBRARIES; i++) {
        snprintf(path, sizeof path, "%s/library%d.so", directory, i); /* a loaded name is not loaded again */
        install(file);
        struct load loaded = load(1);
        unlink(path);
        CHECK(loaded.handle != last);
        last = loaded.handle;
    }
    return 0;
}

static void remove_files(void)
{
    unlink(path);
    unlink(next_path);
    rmdir(directory);
}

int main(int argc, char **argv)
{
    CHECK(argc == 4 && mkdtemp(directory));
    atexit(remove_files);
    snprintf(path, sizeof path, "%s/library.so", directory);
    snprintf(next_path, sizeof next_path, "%s/next.so", directory);
    return strcmp(argv[1], "many") ? check_replaced(argv[2], argv[3]) : check_many(argv[2]);
}
