/* Compares the line splitter, on a stream in pieces, with a splitter that has all of the stream at once. An input: the
 * number of cuts, the sizes of the pieces, then the stream. In it 0x01 N stands for N x 400 bytes, so that small inputs
 * make long lines. */
#include <string.h>

#include "fuzz.h"
#include "host/line_buffer.h"

#define STREAM_BYTES_MAX 200000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char stream[STREAM_BYTES_MAX];
static size_t stream_length, expected_at;

static void unfold(struct bytes *bytes)
{
    stream_length = 0;
    while (bytes->left > 0) {
        char byte = (char)take_number(bytes, 1);
        size_t count = byte == 1 ? 400 * (size_t)take_number(bytes, 1) : 1;
        if (stream_length + count > STREAM_BYTES_MAX)
            return;
        memset(stream + stream_length, byte == 1 ? 'x' : byte, count);
        stream_length += count;
    }
}

/* Finds the next line of the complete stream that is short enough. Returns false if there is none. */
static bool next_expected(size_t *start, size_t *length)
{
    while (expected_at < stream_length) {
        const char *end = memchr(stream + expected_at, '\n', stream_length - expected_at);
        if (end == NULL)
            return false;
        *start = expected_at;
        *length = (size_t)(end - (stream + expected_at));
        expected_at += *length + 1;
        if (*length + 1 <= WIRE_LINE_BYTES)
            return true;
    }
    return false;
}

static void take(void *context, const char *line, size_t length)
{
    size_t start, expected;
    (void)context;
    MUST(next_expected(&start, &expected));
    MUST(length == expected && memcmp(line, stream + start, length) == 0);
}

static uint64_t count_too_long(void)
{
    uint64_t count = 0;
    for (size_t start = 0, length; start < stream_length; start += length + 1) {
        const char *end = memchr(stream + start, '\n', stream_length - start);
        length = end != NULL ? (size_t)(end - (stream + start)) : stream_length - start;
        count += length >= WIRE_LINE_BYTES;
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct line_buffer lines;
    struct bytes bytes = {data, size};
    size_t cuts = take_number(&bytes, 1), count;
    struct bytes sizes = {0};
    sizes.at = (const uint8_t *)take_bytes(&bytes, 2 * cuts, &count);
    sizes.left = count;
    unfold(&bytes);
    memset(&lines, 0, sizeof(lines));
    expected_at = 0;
    for (size_t done = 0; done < stream_length;) {
        size_t space;
        char *place = line_buffer_space(&lines, &space);
        MUST(space > 0 && place + space == lines.bytes + sizeof(lines.bytes));
        size_t piece = sizes.left > 0 ? take_number(&sizes, 2) : space;
        piece = piece == 0 ? 1 : piece;
        piece = piece < space ? piece : space;
        piece = piece < stream_length - done ? piece : stream_length - done;
        memcpy(place, stream + done, piece);
        line_buffer_take(&lines, piece, take, NULL);
        done += piece;
    }
    size_t start, length;
    MUST(!next_expected(&start, &length));
    MUST(lines.too_long == count_too_long());
    return 0;
}
