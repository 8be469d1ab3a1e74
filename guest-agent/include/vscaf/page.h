/* The page that one process (its shim) and the guest agent share, and the packets of the join.
 *
 * The agent makes the page (a memfd, sealed against resizing), fills the header, and hands it to the process over
 * the join socket. From then on each field has one writing side, named beside it. Neither side trusts the other:
 * the shim uses team sizes only after clamping them, the agent clamps every figure that it reads.
 *
 * The layout is frozen against VSCAF_PAGE_VERSION: whoever changes an offset below (they are asserted) changes the
 * number.
 */
#ifndef VSCAF_PAGE_H
#define VSCAF_PAGE_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define VSCAF_PAGE_MAGIC 0x46435356u /* "VSCF" */
#define VSCAF_PAGE_VERSION 2u
#define VSCAF_PAGE_BYTES 65536u
#define VSCAF_SECTIONS 256u /* sections a process can publish; the rest are counted in sections_dropped */
#define VSCAF_POINTS 6u     /* team sizes kept per section */
#define VSCAF_ESTIMATES 8u  /* team sizes at which a whole-program speedup is published */

#define VSCAF_SOCKET_DEFAULT "/run/vscaf/agent.sock" /* VSCAF_SOCKET in the environment overrides it */
#define VSCAF_MAX_TEAM 4096u                         /* no team size above this is ever believed */

/* Bits of vscaf_page.control. */
#define VSCAF_CONTROL_LEARN 1u     /* somebody else wants CPUs: learning speedup is worth its cost */
#define VSCAF_CONTROL_EXCLUSIVE 2u /* this guest's CPUs are its own, and are not about to leave */
#define VSCAF_CONTROL_CALL 4u      /* the process is taken as idle: it calls when it starts a section (vscaf_call) */
/* The bits from here on, with VSCAF_CONTROL_CALL: the number of this setting. A process calls once for each. */
#define VSCAF_CONTROL_CALL_SHIFT 8u

/* Bits of vscaf_page.program: what is known of the program and its thread count. */
#define VSCAF_PROGRAM_ASKED 1u    /* it was told a number of threads (omp_get_max_threads, omp_get_num_procs) */
#define VSCAF_PROGRAM_SET 2u      /* it set the number itself (omp_set_num_threads) */
#define VSCAF_PROGRAM_BOUND 4u    /* its threads are bound to places (OMP_PROC_BIND and the like) */
#define VSCAF_PROGRAM_KEEPS 8u    /* a section reads thread-private data of an earlier section */
#define VSCAF_PROGRAM_NUMBERED 16u /* a section goes by thread number and by a count told before */
#define VSCAF_PROGRAM_OVERRIDE 32u /* VSCAF_MALLEABLE said what it is */
#define VSCAF_PROGRAM_NO_COUNTERS 64u /* the metric ipc was asked for, and there is no counter: rate is used */
#define VSCAF_PROGRAM_MASTERS 128u /* several threads start top-level sections: its speedup is not learned */
#define VSCAF_PROGRAM_UNREAD 256u  /* the code of a section could not be read, and it may keep thread-private data */

/* vscaf_page.malleable, as the shim treats the program now. */
enum vscaf_malleable {
    VSCAF_MALLEABLE_FULL = 0,   /* any team size, up to the number told */
    VSCAF_MALLEABLE_SHRINK = 1, /* never larger than the smallest team since it is known */
    VSCAF_MALLEABLE_RIGID = 2,  /* the program's own number */
};

/* vscaf_page.metric: how the estimates were made. */
enum vscaf_metric {
    VSCAF_METRIC_RATE = 0, /* blocks of time at another team size */
    VSCAF_METRIC_IPC = 1,  /* instructions per cycle against a serial experiment's */
};

/* What was measured of one section at one team size. Sums only grow; the reader takes differences. Short sections are
 * timed by random samples: `ns` is then scaled up to all `count` instances. */
struct vscaf_point {
    _Atomic uint32_t team_size; /* 0: free. Claimed once by compare-and-swap, then constant */
    uint32_t unused;
    _Atomic uint64_t count; /* instances that ended */
    _Atomic uint64_t ns;    /* their wall time, summed */
};

/* One OpenMP parallel region, named by where its outlined function lies. */
struct vscaf_section {
    _Atomic uint64_t build_id; /* first 8 bytes of the object's build-id, 0 where it has none */
    _Atomic uint64_t offset;   /* of the outlined function from its object's load address; stored last, not 0: in use */
    struct vscaf_point points[VSCAF_POINTS];
    _Atomic uint64_t other_ns; /* wall time at team sizes for which no point was left */
};

/* S(p) of the whole program as the shim estimates it: T(1) / T(p), both with the serial time between sections. */
struct vscaf_estimate {
    _Atomic uint32_t team_size; /* p */
    _Atomic uint32_t samples;   /* independent comparisons behind it */
    _Atomic uint64_t speedup_millionths;
    _Atomic uint64_t standard_error_millionths; /* widened for few samples: 1.96 of it make the 95% interval */
};

/* Where the sampled sections' thread time went, in ns summed over threads. The parts add up to `total`. */
struct vscaf_decomposition {
    _Atomic uint64_t total;     /* wall time x team size */
    _Atomic uint64_t useful;    /* in the program's own code, as long as one thread alone would take */
    _Atomic uint64_t inflation; /* in the program's own code, beyond that; 0 while S is unknown */
    _Atomic uint64_t fork;      /* from the start of the region to the thread's first instruction in it, and back */
    _Atomic uint64_t dispatch;  /* asking for further chunks of dynamic, guided and runtime loops */
    _Atomic uint64_t barrier;   /* waiting at barriers and at the end */
    _Atomic uint64_t steal;     /* runnable without a CPU */
    _Atomic uint64_t sections;  /* sampled instances */
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
    _Atomic uint32_t control;    /* VSCAF_CONTROL_ bits */
    _Atomic uint32_t learn_budget_ppm; /* of the process's CPU time that learning may cost; 0: the shim's default */
    uint8_t pad_control[88];

    /* The process. Written by the shim. Top-level sections in flight are
     * (started + started_others) - (finished + finished_others): the thread that starts most of them has counters of
     * its own, without locked instructions. A shim stores `started` before it loads team_size, in program order only.
     * An agent that stores a team size and wants to know which sections may still use the old one has to put a barrier
     * into the process (membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED: the shim registers for it when it joins; or
     * MEMBARRIER_CMD_GLOBAL) between its store and its loads of the counters, which come in the order finished
     * (acquire), started. */
    _Atomic uint64_t started;
    _Atomic uint64_t finished;
    _Atomic uint64_t started_others;
    _Atomic uint64_t finished_others;
    _Atomic uint64_t section_ns;       /* wall time of finished top-level sections, summed */
    _Atomic uint64_t sections_dropped; /* instances of sections that found no free slot */
    _Atomic uint32_t program;          /* VSCAF_PROGRAM_ bits */
    _Atomic uint32_t told;             /* the number of threads the program was told; 0: never told */
    _Atomic uint32_t team_last;        /* team size of the last section that started */
    _Atomic uint32_t sections_used;
    _Atomic uint32_t malleable;        /* enum vscaf_malleable */
    _Atomic uint32_t team_most;        /* the largest team that its rules and its user still allow; 0: no bound but team_limit */
    uint8_t pad_process[56];

    /* What the process learned. Written by the shim. The estimates are a seqlock: `estimates_sequence` is odd while
     * they are being written, and has changed if they were. */
    _Atomic uint32_t estimates_sequence;
    _Atomic uint32_t estimates_used; /* 0: unknown */
    _Atomic uint32_t metric;         /* enum vscaf_metric */
    _Atomic uint32_t experiments_refused;   /* serial experiments that were not safe, or not worth it */
    _Atomic uint32_t experiments_ended;     /* that told something */
    _Atomic uint32_t experiments_abandoned; /* begun, and ended by the seal or the time limit */
    _Atomic uint64_t learn_cost_ns; /* thread time that learning has taken from the program, upper bound */
    _Atomic uint64_t learn_base_ns; /* CPU time of the process when that was last brought up to date */
    uint8_t pad_learn[24];
    struct vscaf_estimate estimates[VSCAF_ESTIMATES];
    struct vscaf_decomposition decomposition;

    uint8_t pad_sections[512];
    struct vscaf_section sections[VSCAF_SECTIONS];
};

static_assert(sizeof(struct vscaf_point) == 24, "layout of version 2");
static_assert(sizeof(struct vscaf_section) == 168, "layout of version 2");
static_assert(sizeof(struct vscaf_estimate) == 24, "layout of version 2");
static_assert(offsetof(struct vscaf_page, team_size) == 16, "layout of version 2");
static_assert(offsetof(struct vscaf_page, control) == 32, "layout of version 2");
static_assert(offsetof(struct vscaf_page, started) == 128, "layout of version 2");
static_assert(offsetof(struct vscaf_page, program) == 176, "layout of version 2");
static_assert(offsetof(struct vscaf_page, estimates_sequence) == 256, "layout of version 2");
static_assert(offsetof(struct vscaf_page, estimates) == 320, "layout of version 2");
static_assert(offsetof(struct vscaf_page, decomposition) == 512, "layout of version 2");
static_assert(offsetof(struct vscaf_page, sections) == 1088, "layout of version 2");
static_assert(sizeof(struct vscaf_page) <= VSCAF_PAGE_BYTES, "the page holds its sections");

/* The join: SOCK_SEQPACKET, one packet each way; the answer carries the memfd (SCM_RIGHTS) when status is 0.
 * The process keeps the socket open: closed is exited. The agent sends nothing more, and the process nothing but calls:
 * anything else ends it. */
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

/* What a process says when it starts a top-level section and its page has VSCAF_CONTROL_CALL set. Its CPUs were lent to
 * others; the agent takes it as running from now on. The section itself has the team size of the page, which is what
 * the process gets when it runs too. An agent that never sets the bit (one of before it) is never sent this. */
#define VSCAF_CALL_MAGIC 0x4c4c4143u /* "CALL" */

struct vscaf_call {
    uint32_t magic;
    uint32_t number; /* of the setting that it answers: control >> VSCAF_CONTROL_CALL_SHIFT */
};

#endif
