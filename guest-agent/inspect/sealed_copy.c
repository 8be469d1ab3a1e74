#include "sealed_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <sha256.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE 65536u

/* Reads up to PIECE bytes of the file at `at`. Returns how many, or -errno. */
static ssize_t read_piece(int fd, uint64_t at, uint8_t piece[PIECE])
{
    size_t used = 0;
    while (used < PIECE) {
        ssize_t got = pread(fd, piece + used, PIECE - used, (off_t)(at + used));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        used += (size_t)got;
    }
    return (ssize_t)used;
}

static int write_all(int fd, const uint8_t *bytes, size_t size)
{
    while (size > 0) {
        ssize_t put = write(fd, bytes, size);
        if (put < 0)
            return -errno;
        bytes += put;
        size -= (size_t)put;
    }
    return 0;
}

/* Whether the file still has the bytes of the copy. Its times do not tell: a store through a shared mapping leaves
 * them. */
static int compare(int fd, const struct sealed_copy *copy)
{
    uint8_t piece[PIECE];
    for (uint64_t at = 0;; at += PIECE) {
        ssize_t got = read_piece(fd, at, piece);
        if (got < 0)
            return (int)got;
        uint64_t left = at < copy->size ? copy->size - at : 0;
        if ((uint64_t)got != (left < PIECE ? left : PIECE) ||
            (got > 0 && memcmp(piece, (const uint8_t *)copy->bytes + at, (size_t)got) != 0))
            return -EAGAIN;
        if (got < (ssize_t)PIECE)
            return 0;
    }
}

static int fill(int fd, int memory, struct sealed_copy *copy)
{
    uint8_t piece[PIECE];
    ssize_t got = PIECE;
    for (copy->size = 0; got == (ssize_t)PIECE; copy->size += (size_t)got) {
        got = read_piece(fd, copy->size, piece);
        if (got < 0)
            return (int)got;
        if (copy->size + (size_t)got > SEALED_COPY_BYTES_MAX)
            return -EFBIG;
        int status = write_all(memory, piece, (size_t)got);
        if (status != 0)
            return status;
    }
    if (copy->size == 0)
        return -ENODATA;
    if (fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return -errno;
    void *bytes = mmap(NULL, copy->size, PROT_READ, MAP_PRIVATE, memory, 0);
    if (bytes == MAP_FAILED)
        return -errno;
    copy->bytes = bytes;
    return 0;
}

int sealed_copy_of(int fd, struct sealed_copy *copy)
{
    struct stat status;
    *copy = (struct sealed_copy){0};
    if (fstat(fd, &status) != 0)
        return -errno;
    if (!S_ISREG(status.st_mode))
        return -ENOTSUP;
    if ((uint64_t)status.st_size > SEALED_COPY_BYTES_MAX)
        return -EFBIG;
    int memory = memfd_create("vscaf-inspect", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory < 0)
        return -errno;
    int result = fill(fd, memory, copy);
    close(memory);
    if (result == 0)
        result = compare(fd, copy);
    if (result != 0) {
        sealed_copy_free(copy);
        return result;
    }
    SHA256_CTX context;
    SHA256Init(&context);
    SHA256Update(&context, copy->bytes, copy->size);
    SHA256Final(copy->sha256, &context);
    return 0;
}

void sealed_copy_free(struct sealed_copy *copy)
{
    if (copy->bytes != NULL)
        munmap((void *)(uintptr_t)copy->bytes, copy->size);
    copy->bytes = NULL;
}
