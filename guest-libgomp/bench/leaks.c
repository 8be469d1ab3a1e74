#include "leaks.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "../tests/support/check.h"

#define IN_A_ROW 3u
#define SAMPLES_MIN 12u

static int count_entries(const char *path)
{
    DIR *directory = opendir(path);
    int count = -2; /* . and .. */
    if (!directory)
        return -1;
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

void leaks_look(struct leaks *leaks, pid_t process)
{
    struct leaks_sample sample = {.threads = -1, .memory_kib = -1};
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)process);
    sample.descriptors = count_entries(path);
    snprintf(path, sizeof path, "/proc/%d/status", (int)process);
    FILE *status = fopen(path, "r");
    if (!status)
        return;
    while (fgets(line, sizeof line, status)) {
        sscanf(line, "Threads: %d", &sample.threads);
        sscanf(line, "VmRSS: %ld", &sample.memory_kib);
    }
    fclose(status);
    if (sample.descriptors < 0 || sample.threads < 0 || sample.memory_kib < 0)
        return;
    if (leaks->count == leaks->room) {
        leaks->room = leaks->room ? 2 * leaks->room : 1024;
        leaks->samples = realloc(leaks->samples, leaks->room * sizeof leaks->samples[0]);
        CHECK(leaks->samples, "no memory for samples");
    }
    leaks->samples[leaks->count++] = sample;
}

static long value_of(const struct leaks_sample *sample, int which)
{
    return which == 0 ? sample->threads : which == 1 ? sample->descriptors : sample->memory_kib;
}

/* The most that lasted, from sample to sample. */
static long most(const struct leaks *leaks, size_t from, size_t to, int which)
{
    long most = 0;
    for (size_t i = from; i + IN_A_ROW <= to; i++) {
        long least = value_of(&leaks->samples[i], which);
        for (size_t j = i + 1; j < i + IN_A_ROW; j++) {
            long value = value_of(&leaks->samples[j], which);
            if (value < least)
                least = value;
        }
        if (least > most)
            most = least;
    }
    return most;
}

struct leaks_sample leaks_grown(const struct leaks *leaks, int largest)
{
    size_t count = leaks->count, third = count / 3;
    if (count < SAMPLES_MIN)
        return (struct leaks_sample){-1, -1, -1};
    long threads = most(leaks, 0, count, 0) - largest;
    long descriptors = most(leaks, count - third, count, 1) - most(leaks, third, count - third, 1);
    long memory_kib = most(leaks, count - third, count, 2) - most(leaks, third, count - third, 2);
    return (struct leaks_sample){
        .threads = threads > 0 ? (int)threads : 0,
        .descriptors = descriptors > 0 ? (int)descriptors : 0,
        .memory_kib = memory_kib > 0 ? memory_kib : 0,
    };
}

void leaks_free(struct leaks *leaks)
{
    free(leaks->samples);
    *leaks = (struct leaks){0};
}
