/* Counts the threads of the teams in flight. */
#ifndef VSCAF_TEST_SHARE_BODY_H
#define VSCAF_TEST_SHARE_BODY_H

/* Called by each thread of a team of `threads`, with its number. */
typedef void share_body(int number, int threads);

#endif
