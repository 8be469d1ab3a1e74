/* SHA-1 (FIPS 180-4). UTS uses it as a random number generator. It is not safe against attackers. */
#ifndef VSCAF_NPB_SHA1_H
#define VSCAF_NPB_SHA1_H

#include <stddef.h>

#define SHA1_BYTES 20

/* The digest of `length` bytes. `message` and `digest` may overlap. */
void sha1(const unsigned char *message, size_t length, unsigned char digest[SHA1_BYTES]);

#endif
