/* SHA-1 against the example messages of NIST for FIPS 180, and against lengths around the ends of blocks. */
#include "sha1.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct vector {
    const char *text; /* repeated until there are `length` bytes */
    size_t length;
    const char *digest;
};

static const struct vector vectors[] = {
    /* NIST's examples: one block, two blocks, many blocks. */
    {"abc", 3, "a9993e364706816aba3e25717850c26c9cd0d89d"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, "84983e441c3bd26ebaae4aa1f95129e5e54670f1"},
    {"a", 1000000, "34aa973cd4c4daa4f61eeb2bdbad27316534016f"},
    /* The padding needs a block of its own from 56 bytes on. By another implementation. */
    {"0123456789", 0, "da39a3ee5e6b4b0d3255bfef95601890afd80709"},
    {"0123456789", 55, "9f3a4ce7f66b1b74c34da2c5d732c39f81e0f8df"},
    {"0123456789", 63, "984b0f2f6d78c24020f5a79d409f67ab99302891"},
    {"0123456789", 64, "cf0800f7644ace3cb4c3fa33388d3ba0ea3c8b6e"},
    {"0123456789", 119, "d1ba16c5f745875597b6d0b9061f30b5a5c89092"},
};

static int check(const struct vector *vector)
{
    unsigned char *message = malloc(vector->length + 1);
    unsigned char digest[SHA1_BYTES];
    char text[2 * SHA1_BYTES + 1];
    size_t period = strlen(vector->text);

    if (message == NULL) {
        fprintf(stderr, "sha1: no memory for %zu bytes\n", vector->length);
        return 1;
    }
    for (size_t i = 0; i < vector->length; i++)
        message[i] = (unsigned char)vector->text[i % period];
    sha1(message, vector->length, digest);
    free(message);
    for (int i = 0; i < SHA1_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    if (strcmp(text, vector->digest) == 0)
        return 0;
    fprintf(stderr, "sha1: %zu bytes of \"%s\": %s, not %s\n", vector->length, vector->text, text, vector->digest);
    return 1;
}

int main(void)
{
    int wrong = 0;

    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
        wrong += check(&vectors[i]);
    return wrong > 0;
}
