/* Which files of a directory declare a program. */
#include "join/program_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/check.h"
#include "join/program.h"

/* program_list_start() is tested by declare_listed.sh. */
void program_declare(enum program_declaration declaration)
{
    (void)declaration;
}

static char directory[] = "/tmp/vscaf-program-list-XXXXXX";

static void list(const char *name, const char *text, mode_t mode)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0 && chmod(path, mode) == 0);
}

static bool listed(const char *program)
{
    return program_is_listed(directory, geteuid(), program);
}

static void forget(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    CHECK(unlink(path) == 0);
}

int main(void)
{
    CHECK(!program_is_listed("/nowhere/at/all", geteuid(), "/opt/a"));
    CHECK(mkdtemp(directory));
    CHECK(!listed("/opt/a"), "empty");
    list("one", "# comment\n\n/opt/a\n/opt/with blank\n", 0644);
    list("two", "/opt/last", 0600);
    CHECK(listed("/opt/a") && listed("/opt/with blank") && listed("/opt/last"));
    CHECK(!listed("/opt") && !listed("/opt/ab") && !listed("comment"));

    /* A line longer than any path does not declare what its end names. */
    char *line = malloc(20000);
    CHECK(line);
    memset(line, 'x', 19999);
    strcpy(line + 12000, "\n/opt/b\n");
    list("three", line, 0644);
    CHECK(listed("/opt/b"));
    strcpy(line + 12000, "/opt/c\n");
    list("three", line, 0644);
    CHECK(!listed("/opt/c"));
    free(line);

    /* Others may write to it, hidden, no file. */
    list("one", "/opt/a\n", 0664);
    CHECK(!listed("/opt/a"), "group");
    list("one", "/opt/a\n", 0646);
    CHECK(!listed("/opt/a"), "others");
    list("one", "/opt/a\n", 0644);
    CHECK(listed("/opt/a"));
    list(".hidden", "/opt/h\n", 0644);
    CHECK(!listed("/opt/h"), "hidden");
    char path[128];
    snprintf(path, sizeof path, "%s/fifo", directory);
    CHECK(mkfifo(path, 0644) == 0 && !listed("/opt/none"), "a pipe makes nobody wait");
    CHECK(!program_is_listed(directory, geteuid() + 1, "/opt/a"), "owner");
    CHECK(chmod(directory, 0770) == 0 && !listed("/opt/a"), "directory");
    forget("one"), forget("two"), forget("three"), forget(".hidden"), forget("fifo");
    CHECK(rmdir(directory) == 0);
    return 0;
}
