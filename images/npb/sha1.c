#include "sha1.h"

#include <stdint.h>
#include <string.h>

#define BLOCK_BYTES 64
#define LENGTH_BYTES 8 /* at the end of the last block: the message's length in bits */
#define ROUNDS 80

static inline uint32_t rotate_left(uint32_t x, unsigned bits)
{
    return x << bits | x >> (32 - bits);
}

static inline uint32_t load_big_endian(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static inline void store_big_endian(unsigned char *bytes, uint32_t x)
{
    bytes[0] = (unsigned char)(x >> 24);
    bytes[1] = (unsigned char)(x >> 16);
    bytes[2] = (unsigned char)(x >> 8);
    bytes[3] = (unsigned char)x;
}

/* Section 6.1.2: takes one block into the hash value. The names are those of the standard. */
static void take_block(uint32_t hash[5], const unsigned char block[BLOCK_BYTES])
{
    uint32_t w[ROUNDS];
    uint32_t a = hash[0], b = hash[1], c = hash[2], d = hash[3], e = hash[4];

    for (int t = 0; t < 16; t++)
        w[t] = load_big_endian(block + 4 * t);
    for (int t = 16; t < ROUNDS; t++)
        w[t] = rotate_left(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);

    for (int t = 0; t < ROUNDS; t++) {
        uint32_t f, k;

        if (t < 20) {
            f = (b & c) ^ (~b & d);
            k = UINT32_C(0x5a827999);
        } else if (t < 40) {
            f = b ^ c ^ d;
            k = UINT32_C(0x6ed9eba1);
        } else if (t < 60) {
            f = (b & c) ^ (b & d) ^ (c & d);
            k = UINT32_C(0x8f1bbcdc);
        } else {
            f = b ^ c ^ d;
            k = UINT32_C(0xca62c1d6);
        }
        uint32_t next = rotate_left(a, 5) + f + e + k + w[t];

        e = d;
        d = c;
        c = rotate_left(b, 30);
        b = a;
        a = next;
    }
    hash[0] += a;
    hash[1] += b;
    hash[2] += c;
    hash[3] += d;
    hash[4] += e;
}

void sha1(const unsigned char *message, size_t length, unsigned char digest[SHA1_BYTES])
{
    uint32_t hash[5] = {UINT32_C(0x67452301), UINT32_C(0xefcdab89), UINT32_C(0x98badcfe), UINT32_C(0x10325476),
                        UINT32_C(0xc3d2e1f0)};
    unsigned char last[2 * BLOCK_BYTES] = {0}; /* the rest of the message, and the padding of section 5.1.1 */
    size_t rest = length % BLOCK_BYTES;
    size_t last_bytes = rest + 1 + LENGTH_BYTES <= BLOCK_BYTES ? BLOCK_BYTES : 2 * BLOCK_BYTES;
    uint64_t bits = 8 * (uint64_t)length;

    for (size_t at = 0; at < length - rest; at += BLOCK_BYTES)
        take_block(hash, message + at);
    memcpy(last, message + length - rest, rest);
    last[rest] = 0x80;
    store_big_endian(last + last_bytes - 8, (uint32_t)(bits >> 32));
    store_big_endian(last + last_bytes - 4, (uint32_t)bits);
    for (size_t at = 0; at < last_bytes; at += BLOCK_BYTES)
        take_block(hash, last + at);
    for (int i = 0; i < 5; i++)
        store_big_endian(digest + 4 * i, hash[i]);
}
