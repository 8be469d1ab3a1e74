/* The page that one process (its shim) and the guest agent share, and the packets of the join.
 *
 * The agent makes the page (a memfd, sealed against resizing), fills the header, and hands it to the process over
 * the join socket. From then on each field has one writing side, named beside it. Neither side trusts the other:
 * the shim uses team sizes only after clamping them, the agent clamps every figure that it reads.
 *
 * The layout is frozen against VSCAF_PAGE_VERSION: whoever changes an offset below (they are asserted) changes the number.
 */
#ifndef VSCAF_PAGE_H
#define VSCAF_PAGE_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define VSCAF_PAGE_MAGIC 0x46435356u /* "VSCF" */
#define VSCAF_PAGE_VERSION 1u
#define VSCAF_PAGE_BYTES 65536u
#define VSCAF_SECTIONS 256u /* sections a process can publish; the rest are counted in sections_dropped */
#define VSCAF_POINTS 6u     /* team sizes kept per section */

#define VSCAF_SOCKET_DEFAULT "/run/vscaf/agent.sock" /* VSCAF_SOCKET in the environment overrides it */
#define VSCAF_MAX_TEAM 4096u                         /* no team size above this is ever believed */

/* Bits of vscaf_page.program: what the program did about its thread count. */
#define VSCAF_PROGRAM_ASKED 1u /* it was told a number of threads (omp_get_max_threads, omp_get_num_procs) */
#define VSCAF_PROGRAM_SET 2u   /* it set the number itself (omp_set_num_threads): rigid */

/* What was measured of one section at one team size. Sums only grow; the reader takes differences. */
struct vscaf_point {
    _Atomic uint32_t team_size; /* 0: free. Claimed once by compare-and-swap, then constant */
    uint32_t unused;
    _Atomic uint64_t count; /* instances that ended */
    _Atomic uint64_t ns;    /* their wall time, summed */
};

/* One OpenMP parallel region, named by where its outlined function lies. */
struct vscaf_section {
    _Atomic uint64_t build_id; /* first 8 bytes of the object's build-id, 0 where it has none */
    _Atomic uint64_t offset;   /* of the outlined function from the object's load address; stored last, non-zero: in use */
    struct vscaf_point points[VSCAF_POINTS];
    _Atomic uint64_t other_ns; /* wall time at team sizes for which no point was left */
};

struct vscaf_page {
    /* Header. Written by the agent before the page is shared, then constant. */
    uint32_t magic;
    uint32_t version;
    uint32_t bytes;
    uint32_t sections_max;

    /* Control. Written by the agent. */
    _Atomic uint32_t team_size;  /* threads for the next top-level section; 0: not decided, leave the program alone */
    _Atomic uint32_t team_limit; /* the largest team size that may ever come; what a program that asks is told */
    _Atomic uint64_t agent_beat; /* grows at every period of the agent */
    uint8_t pad_control[96];

    /* The process. Written by the shim. Sections in flight = started - finished (top-level sections only):
     * `started` is raised (sequentially consistent) before team_size is loaded, so an agent that stores a team size
     * and then reads `started` sees every section that may still use the old size. */
    _Atomic uint64_t started;
    _Atomic uint64_t finished;
    _Atomic uint64_t section_ns;       /* wall time of finished top-level sections, summed */
    _Atomic uint64_t sections_dropped; /* instances of sections that found no free slot */
    _Atomic uint32_t program;          /* VSCAF_PROGRAM_ bits */
    _Atomic uint32_t told;             /* the largest number of threads the program was ever told; 0: never told */
    _Atomic uint32_t team_last;        /* team size of the last section that started */
    _Atomic uint32_t sections_used;
    uint8_t pad_process[80];

    struct vscaf_section sections[VSCAF_SECTIONS];
};

static_assert(sizeof(struct vscaf_point) == 24, "layout of version 1");
static_assert(sizeof(struct vscaf_section) == 168, "layout of version 1");
static_assert(offsetof(struct vscaf_page, team_size) == 16, "layout of version 1");
static_assert(offsetof(struct vscaf_page, started) == 128, "layout of version 1");
static_assert(offsetof(struct vscaf_page, sections) == 256, "layout of version 1");
static_assert(sizeof(struct vscaf_page) <= VSCAF_PAGE_BYTES, "the page holds its sections");

/* The join: SOCK_SEQPACKET, one packet each way; the answer carries the memfd (SCM_RIGHTS) when status is 0.
 * The process keeps the socket open: closed is exited. Neither side sends anything more. */
enum vscaf_join_status {
    VSCAF_JOINED = 0,
    VSCAF_JOIN_VERSION = 1, /* the agent speaks another page version: it says which; the shim stays out of the way */
    VSCAF_JOIN_FULL = 2,    /* no room for one more process */
};

struct vscaf_join {
    uint32_t magic;
    uint32_t version;
    char name[32]; /* program_invocation_short_name, for people; NUL-terminated */
};

struct vscaf_welcome {
    uint32_t magic;
    uint32_t version;
    uint32_t status; /* enum vscaf_join_status */
    uint32_t bytes;
};

#endif
