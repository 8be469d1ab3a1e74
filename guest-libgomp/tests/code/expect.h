/* How a file of sections says what is to be found in them: expect() stands before each. The section is then looked at,
 * not run. */
#ifndef VSCAF_TEST_EXPECT_H
#define VSCAF_TEST_EXPECT_H

#define KEEPS 1u   /* reads what an earlier section may have left */
#define WRITES 2u  /* thread data */
#define TOUCHES 4u /* thread data */
#define ALONE 8u   /* goes by its number, and does not ask for the team's size */
#define UNSURE 16u /* cannot be read: what it does is not known */
#define SCRATCH (WRITES | TOUCHES)

void expect(const char *name, unsigned verdict);

void sections(void);

#endif
