#include "system/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int file_read(const char *path, char *text, size_t size)
{
    text[0] = '\0';
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    size_t length = 0;
    int status = 0;
    while (length < size - 1) {
        ssize_t got = read(fd, text + length, size - 1 - length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            status = -errno;
        if (got <= 0)
            break;
        length += (size_t)got;
    }
    close(fd);
    if (status != 0)
        length = 0;
    if (length > 0 && text[length - 1] == '\n')
        length--;
    text[length] = '\0';
    return status;
}

int file_write(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    size_t length = strlen(text);
    ssize_t put;
    do
        put = write(fd, text, length);
    while (put < 0 && errno == EINTR);
    int status = put < 0 ? -errno : (size_t)put == length ? 0 : -EIO;
    close(fd);
    return status;
}
