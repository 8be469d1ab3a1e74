/* The page that one process (its shim) shares with the guest agent, and the packets by which a process joins.
 *
 * The agent makes the page (a memfd that is sealed against resizing), fills the header, and sends the memfd to the
 * process over the join socket. After that each field has one writer; the comments name it. Neither side trusts the
 * other. The shim clamps a team size before it uses it, and the agent clamps every number that it reads.
 *
 * The layout belongs to VSCAF_PAGE_VERSION. If you change an offset below (static_assert checks them), change the
 * version. A new field may take padding without a new version, if 0 means that it is not there: the agent makes the
 * page of zeros, and an older shim or agent does not touch padding. */
#ifndef VSCAF_PAGE_H
#define VSCAF_PAGE_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define VSCAF_PAGE_MAGIC 0x46435356u /* "VSCF" */
#define VSCAF_PAGE_VERSION 3u
#define VSCAF_PAGE_BYTES 36864u
#define VSCAF_VERDICTS 1024u /* sections of which the agent knows the verdict when the process joins */
#define VSCAF_SIGHTS 1024u   /* sections that a process can ask about; further ones keep the program's own number */
#define VSCAF_PACES 128u    /* pairs of a section and a team size whose times are published */
#define VSCAF_ESTIMATES 8u  /* team sizes at which a speedup of the program is published */

#define VSCAF_SOCKET_DEFAULT "/run/vscaf/agent.sock" /* VSCAF_SOCKET in the environment overrides it */
#define VSCAF_MAX_TEAM 4096u                         /* a team size above this is never used */

/* Bits of vscaf_page.control. */
#define VSCAF_CONTROL_LEARN 1u     /* another program or guest wants CPUs: learning is worth its cost */
#define VSCAF_CONTROL_EXCLUSIVE 2u /* this guest's CPUs are its own, and none is about to leave */
#define VSCAF_CONTROL_CALL 4u      /* the agent counts the process as idle: it sends a vscaf_call at its next section */
/* With VSCAF_CONTROL_CALL, the bits from this one on number the setting. A process sends one call for each number. */
#define VSCAF_CONTROL_CALL_SHIFT 8u

/* Bits of vscaf_page.program: what is known about the program and its number of threads. */
#define VSCAF_PROGRAM_ASKED 1u    /* it was told a number of threads (omp_get_max_threads and others: team-size.md) */
#define VSCAF_PROGRAM_SET 2u      /* it set the number itself (omp_set_num_threads) */
#define VSCAF_PROGRAM_BOUND 4u    /* its threads are bound to places (OMP_PROC_BIND and the like) */
#define VSCAF_PROGRAM_OWN 16u     /* some section ran with the program's own number: no verdict, or one that says so */
#define VSCAF_PROGRAM_OVERRIDE 32u /* the user has set VSCAF_MALLEABLE */
#define VSCAF_PROGRAM_NO_COUNTERS 64u /* the metric ipc was requested, but there are no counters: rate is used */
#define VSCAF_PROGRAM_MASTERS 128u /* several threads start top-level sections: speedup is not learned */

/* vscaf_page.malleable: how the shim treats the program now. */
enum vscaf_malleable {
    VSCAF_MALLEABLE_FULL = 0,   /* any team size, up to the number that the program was told */
    VSCAF_MALLEABLE_SHRINK = 1, /* teams may become smaller, but never larger again */
    VSCAF_MALLEABLE_RIGID = 2,  /* the program's own number of threads */
};

/* vscaf_page.metric: how the estimates were made. */
enum vscaf_metric {
    VSCAF_METRIC_RATE = 0, /* blocks of time at another team size */
    VSCAF_METRIC_IPC = 1,  /* instructions per cycle, compared with those of a serial experiment */
};

/* S(p) of the program as the shim estimates it: T(1) / T(p). Both times include the serial time between sections. */
struct vscaf_estimate {
    _Atomic uint32_t team_size; /* p */
    _Atomic uint32_t samples;   /* independent comparisons that it is based on */
    _Atomic uint64_t speedup_millionths;
    _Atomic uint64_t standard_error_millionths; /* already widened for few samples: the 95% interval is +-1.96 of it */
};

/* Where the thread time of the sampled sections went, in ns summed over threads. The parts add up to `total`. */
struct vscaf_decomposition {
    _Atomic uint64_t total;     /* wall time x team size */
    _Atomic uint64_t useful;    /* in the program's own code, as long as one thread alone would take */
    _Atomic uint64_t inflation; /* in the program's own code, beyond that; 0 while S is unknown */
    _Atomic uint64_t fork;      /* from the start of the region to the thread's first instruction in it */
    _Atomic uint64_t dispatch;  /* getting further chunks of dynamic, guided and runtime loops */
    _Atomic uint64_t barrier;   /* waiting at barriers and at the end */
    _Atomic uint64_t steal;     /* runnable without a CPU */
    _Atomic uint64_t sections;  /* sampled instances */
};

/* How long instances of one section took at one team size that the page decided. The sums grow, and only timed instances
 * and those that these stand for count. An entry's `instances` is stored after its `ns`. */
struct vscaf_pace {
    _Atomic uint32_t section;   /* its offset in its object, modulo 2^32: the same in each run of a program */
    _Atomic uint32_t team_size; /* stored last (release) when the entry is made; 0: this entry and all after it are free */
    _Atomic uint64_t instances;
    _Atomic uint64_t ns;
};

/* The agent's verdict on a section of an object that was mapped when the process joined. */
struct vscaf_known_section {
    uint64_t address; /* of the outlined function in this process */
    uint64_t answer;  /* vscaf_answer (verdict.h) */
};

/* A section that the process has seen for the first time, and of which it did not find the verdict on the page. */
struct vscaf_sight {
    _Atomic uint64_t address; /* of the outlined function in this process. The shim stores it once, before sights_used */
    _Atomic uint64_t answer;  /* the agent's, stored once: vscaf_answer (verdict.h); 0: not known yet */
};

struct vscaf_page {
    /* Header. The agent writes it before it shares the page. Constant after that. */
    uint32_t magic;
    uint32_t version;
    uint32_t bytes;
    uint32_t known_used; /* entries of `known` */

    /* Control. The agent writes it. */
    _Atomic uint32_t team_size;  /* threads of the next top-level section; 0: not decided, so the program decides */
    _Atomic uint32_t team_limit; /* the largest team size that may ever come; a program that asks is told this */
    _Atomic uint64_t agent_beat; /* grows at each period of the agent */
    _Atomic uint32_t control;    /* VSCAF_CONTROL_ bits */
    _Atomic uint32_t learn_budget_ppm; /* learning may cost this part of the CPU time; 0: the shim's default */
    _Atomic uint32_t team_told; /* what a program that asks is told: the CPUs that are there for it; constant */
    uint8_t pad_control[84];

    /* The process. The shim writes it. The number of top-level sections in flight is (started + started_others) -
     * (finished + finished_others). The thread that starts most of them has counters of its own, which it raises
     * without locked instructions.
     *
     * A shim stores `started` before it loads team_size, but in program order only. An agent that has stored a team
     * size may want to know which sections may still use the old one. It then needs a barrier in the process between
     * its store and its loads of the counters: membarrier with MEMBARRIER_CMD_GLOBAL_EXPEDITED, for which the shim
     * registers when it joins, or with MEMBARRIER_CMD_GLOBAL. It must load `finished` (acquire) before `started`. */
    _Atomic uint64_t started;
    _Atomic uint64_t finished;
    _Atomic uint64_t started_others;
    _Atomic uint64_t finished_others;
    _Atomic uint64_t section_ns;       /* sum of the wall times of finished top-level sections */
    _Atomic uint32_t program;          /* VSCAF_PROGRAM_ bits */
    _Atomic uint32_t told;             /* the number of threads that the program was told; 0: never told */
    _Atomic uint32_t team_last;        /* team size of the section that started last */
    _Atomic uint32_t malleable;        /* enum vscaf_malleable */
    _Atomic uint32_t team_most;        /* the largest team that user and program allow; 0: only team_limit bounds it */
    _Atomic uint32_t sights_used; /* entries of `sights`, stored last (release). The agent clamps it */
    /* 1: the section in flight, or the last one, has the program's own number, whatever team_size says: by a verdict,
     * without one, or by a clause. While it is 1, the agent contains the process to its share. 0: the page decided. */
    _Atomic uint32_t own_last;
    _Atomic uint32_t grows; /* 1: some section may have more threads than the program was told */
    uint8_t pad_process[56];

    /* What the process has learned. The shim writes it. The estimates are a seqlock: `estimates_sequence` is odd while
     * they are being written, and differs afterwards. */
    _Atomic uint32_t estimates_sequence;
    _Atomic uint32_t estimates_used; /* 0: unknown */
    _Atomic uint32_t metric;         /* enum vscaf_metric */
    _Atomic uint32_t experiments_refused;   /* serial experiments that were not safe or not worth their cost */
    _Atomic uint32_t experiments_ended;     /* serial experiments that gave a result */
    _Atomic uint32_t experiments_abandoned; /* serial experiments that sandbox or time ended, or that began late */
    _Atomic uint64_t learn_cost_ns; /* thread time that learning has cost the program; an upper bound */
    _Atomic uint64_t learn_base_ns; /* CPU time of the process when learn_cost_ns was last compared with it */
    _Atomic uint64_t ipc_millionths; /* by the metric ipc: instructions per cycle of a thread; 0: not measured */
    uint8_t pad_learn[16];
    struct vscaf_estimate estimates[VSCAF_ESTIMATES];
    struct vscaf_decomposition decomposition;

    uint8_t pad_verdicts[448];

    /* Verdicts. `known` is sorted by address; the agent writes it before it shares the page. It holds for objects that
     * were mapped then: after an unloading the shim asks again. */
    struct vscaf_known_section known[VSCAF_VERDICTS];
    struct vscaf_sight sights[VSCAF_SIGHTS];

    /* The shim writes it. */
    struct vscaf_pace paces[VSCAF_PACES];
};

static_assert(sizeof(struct vscaf_estimate) == 24, "layout of version 3");
static_assert(offsetof(struct vscaf_page, team_size) == 16, "layout of version 3");
static_assert(offsetof(struct vscaf_page, control) == 32, "layout of version 3");
static_assert(offsetof(struct vscaf_page, started) == 128, "layout of version 3");
static_assert(offsetof(struct vscaf_page, program) == 168, "layout of version 3");
static_assert(offsetof(struct vscaf_page, estimates_sequence) == 256, "layout of version 3");
static_assert(offsetof(struct vscaf_page, ipc_millionths) == 296, "layout of version 3");
static_assert(offsetof(struct vscaf_page, estimates) == 320, "layout of version 3");
static_assert(offsetof(struct vscaf_page, decomposition) == 512, "layout of version 3");
static_assert(offsetof(struct vscaf_page, known) == 1024, "layout of version 3");
static_assert(sizeof(struct vscaf_known_section) == 16, "layout of version 3");
static_assert(sizeof(struct vscaf_sight) == 16, "layout of version 3");
static_assert(sizeof(struct vscaf_pace) == 24, "layout of version 3");
static_assert(offsetof(struct vscaf_page, paces) == 33792, "layout of version 3");
static_assert(sizeof(struct vscaf_page) <= VSCAF_PAGE_BYTES, "the page holds its tables");

/* The join: SOCK_SEQPACKET, one packet each way. If the status is 0, the answer carries the memfd (SCM_RIGHTS). The
 * process keeps the socket open. When it is closed, the agent takes the process as gone. After the answer the agent
 * sends nothing, and the process sends only calls. Any other packet ends the connection. */
enum vscaf_join_status {
    VSCAF_JOINED = 0,
    VSCAF_JOIN_VERSION = 1, /* the page version differs (the answer has the agent's); the shim changes nothing */
    VSCAF_JOIN_FULL = 2,    /* the agent has no room for another process */
};

struct vscaf_join {
    uint32_t magic;
    uint32_t version;
    char name[32]; /* program_invocation_short_name, for people; ends with NUL */
};

struct vscaf_welcome {
    uint32_t magic;
    uint32_t version;
    uint32_t status; /* enum vscaf_join_status */
    uint32_t bytes;
};

/* A process sends this packet when it starts a top-level section while its page has VSCAF_CONTROL_CALL set. Its CPUs
 * were lent to others, and the agent counts it as running from now on. The section itself has the team size of the
 * page, which is what the process gets when it runs. An agent that never sets the bit is never sent this packet. */
#define VSCAF_CALL_MAGIC 0x4c4c4143u /* "CALL" */

struct vscaf_call {
    uint32_t magic;
    uint32_t number; /* of the setting that it answers: control >> VSCAF_CONTROL_CALL_SHIFT */
};

#endif
