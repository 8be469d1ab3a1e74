#include "objects.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../../inspect/inspect.h"

#define OBJECTS_MAX 64
#define ALSO_MAX 256

/* A file that was inspected once. */
struct object {
    char path[512];
    void *bytes;
    size_t size;
    struct inspect_result result;
    uint64_t also[ALSO_MAX]; /* sections that the process asked about and that were not found by themselves */
    size_t also_count;
};

/* A part of a file that a process has mapped so that it can be executed. */
struct mapping {
    uint64_t start, end, offset;
    struct object *object; /* NULL: there is no file, or none that is read */
};

bool objects_all_free;
static struct object objects[OBJECTS_MAX];
static size_t objects_count;

/* Libraries of the system have no sections of a generated program, and would be read at each start. */
static bool of_system(const char *path)
{
    static const char *const places[] = {"/usr/lib", "/lib"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (strncmp(path, places[i], strlen(places[i])) == 0)
            return true;
    return strstr(path, "libvscaf-gomp") != NULL;
}

static void inspect(struct object *object)
{
    inspect_free(&object->result);
    memset(&object->result, 0, sizeof object->result);
    if (inspect_object(object->bytes, object->size, object->also, object->also_count, &object->result) != 0)
        abort();
}

static struct object *object_of(const char *path)
{
    for (size_t i = 0; i < objects_count; i++)
        if (strcmp(objects[i].path, path) == 0)
            return &objects[i];
    if (objects_count == OBJECTS_MAX || strlen(path) >= sizeof objects->path)
        return NULL;
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0 || status.st_size <= 0) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (bytes == MAP_FAILED)
        return NULL;
    struct object *object = &objects[objects_count++];
    strcpy(object->path, path);
    object->bytes = bytes;
    object->size = (size_t)status.st_size;
    inspect(object);
    return object;
}

bool objects_inspect(const char *path)
{
    return object_of(path) != NULL;
}

static size_t mappings_of(pid_t process, struct mapping *mappings, size_t max)
{
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)process);
    FILE *file = fopen(path, "re");
    size_t count = 0;
    while (file && count < max && fgets(line, sizeof line, file)) {
        struct mapping *mapping = &mappings[count];
        char rights[5], name[512] = "";
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %511[^\n]", &mapping->start, &mapping->end, rights,
                   &mapping->offset, name) < 4 || rights[2] != 'x')
            continue;
        bool is_file = name[0] == '/' && !strstr(name, " (deleted)") && !of_system(name);
        mapping->object = is_file ? object_of(name) : NULL;
        count++;
    }
    if (file)
        fclose(file);
    return count;
}

/* A function that the verdict relies on is another object's own: what was taken for granted of it does not hold. */
static bool replaced(const struct inspect_section *section)
{
    for (size_t i = 0; i < objects_count; i++)
        for (size_t word = 0; word < sizeof section->relies.words / sizeof *section->relies.words; word++)
            if (objects[i].result.defines.words[word] & section->relies.words[word])
                return true;
    return false;
}

static uint32_t verdict_on(const struct inspect_section *section)
{
    if (objects_all_free)
        return vscaf_verdict_word(VSCAF_VERDICT_FREE, VSCAF_REASON_NONE);
    if (replaced(section))
        return vscaf_verdict_word(VSCAF_VERDICT_OWN, VSCAF_REASON_REPLACED);
    return section->verdict;
}

static const struct inspect_section *section_at(const struct object *object, uint64_t offset)
{
    for (size_t i = 0; i < object->result.count; i++)
        if (object->result.sections[i].file_offset == offset)
            return &object->result.sections[i];
    return NULL;
}

uint32_t objects_verdict(pid_t process, uint64_t address)
{
    struct mapping mappings[OBJECTS_MAX];
    size_t count = mappings_of(process, mappings, OBJECTS_MAX);
    if (objects_all_free)
        return vscaf_verdict_word(VSCAF_VERDICT_FREE, VSCAF_REASON_NONE);
    for (size_t i = 0; i < count; i++) {
        if (address < mappings[i].start || address >= mappings[i].end || !mappings[i].object)
            continue;
        struct object *object = mappings[i].object;
        uint64_t offset = address - mappings[i].start + mappings[i].offset;
        if (!section_at(object, offset) && object->also_count < ALSO_MAX) {
            object->also[object->also_count++] = offset;
            inspect(object);
        }
        const struct inspect_section *section = section_at(object, offset);
        return section ? verdict_on(section)
                       : vscaf_verdict_word(VSCAF_VERDICT_OWN, VSCAF_REASON_UNREADABLE);
    }
    return vscaf_verdict_word(VSCAF_VERDICT_OWN, VSCAF_REASON_NO_OBJECT);
}

static int by_address(const void *one, const void *other)
{
    uint64_t a = ((const struct vscaf_known_section *)one)->address;
    uint64_t b = ((const struct vscaf_known_section *)other)->address;
    return a < b ? -1 : a > b;
}

void objects_fill_known(pid_t process, struct vscaf_page *page)
{
    struct mapping mappings[OBJECTS_MAX];
    size_t count = mappings_of(process, mappings, OBJECTS_MAX);
    for (size_t i = 0; i < count; i++) {
        const struct object *object = mappings[i].object;
        for (size_t k = 0; object && k < object->result.count; k++) {
            const struct inspect_section *section = &object->result.sections[k];
            uint64_t length = mappings[i].end - mappings[i].start;
            if (section->file_offset < mappings[i].offset || section->file_offset - mappings[i].offset >= length)
                continue;
            if (page->known_used < VSCAF_VERDICTS)
                page->known[page->known_used++] = (struct vscaf_known_section){
                    .address = section->file_offset - mappings[i].offset + mappings[i].start,
                    .answer = vscaf_answer(verdict_on(section))};
        }
    }
    qsort(page->known, page->known_used, sizeof *page->known, by_address);
}

static void print_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++)
        if (*text == '"' || *text == '\\' || (unsigned char)*text < ' ')
            fputc('?', out);
        else
            fputc(*text, out);
    fputc('"', out);
}

void objects_print(FILE *out)
{
    const char *separator = "";
    fputc('[', out);
    for (size_t i = 0; i < objects_count; i++)
        for (size_t k = 0; k < objects[i].result.count; k++) {
            const struct inspect_section *section = &objects[i].result.sections[k];
            uint32_t word = verdict_on(section);
            fprintf(out, "%s{\"object\": ", separator);
            print_text(out, objects[i].path);
            fprintf(out, ", \"address\": %" PRIu64 ", \"at\": %" PRIu64 ", \"verdict\": %u, \"reason\": ", section->address,
                    section->at, (unsigned)vscaf_verdict_of(word));
            print_text(out, inspect_reason_text(vscaf_reason_of(word)));
            fprintf(out, ", \"detail\": ");
            print_text(out, section->detail);
            fprintf(out, ", \"name\": ");
            print_text(out, section->name);
            fputc('}', out);
            separator = ", ";
        }
    fputc(']', out);
}
