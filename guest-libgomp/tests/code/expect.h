/* A file of sections calls expect() before each section with the findings to expect. Then the section is inspected, not
 * run. */
#ifndef VSCAF_TEST_EXPECT_H
#define VSCAF_TEST_EXPECT_H

#define KEEPS 1u   /* reads what an earlier section may have left */
#define WRITES 2u  /* thread-private data */
#define TOUCHES 4u /* thread-private data */
#define ALONE 8u   /* uses its thread number without asking for the team's size */
#define TELLS 32u  /* leaves its team's size for later sections, or asks for a number that it divides by */
#define BESIDE 64u /* refers to thread data of another object */
#define UNSURE 16u /* its code cannot be read, so its effects are unknown */
#define SCRATCH (WRITES | TOUCHES)

void expect(const char *name, unsigned verdict);

void sections(void);

#endif
