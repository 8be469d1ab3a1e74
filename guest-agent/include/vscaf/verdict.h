/* What is known of one parallel section: whether its team may have another size than the program's own number.
 *
 * vscaf-inspect reads the section's code and gives the verdict. The agent puts it on the process's page. The shim
 * applies it (docs/team-size.md). A section without a verdict keeps the program's own number. */
#ifndef VSCAF_VERDICT_H
#define VSCAF_VERDICT_H

#include <stdint.h>

/* The rules by which verdicts are given. Change it with any change of a verdict: older verdicts are then not used. */
#define VSCAF_RULES_VERSION 3u

/* The low byte of a verdict word. */
enum vscaf_verdict {
    VSCAF_VERDICT_NONE = 0,  /* not known (yet) */
    VSCAF_VERDICT_FREE = 1,  /* proven: any team size gives the same result */
    VSCAF_VERDICT_UP_TO = 2, /* proven: any team size up to the number of threads that the program was told */
    VSCAF_VERDICT_OWN = 3,   /* it needs the program's own number; the reason says why */
};

/* The next byte: why a section needs the program's own number. */
enum vscaf_reason {
    VSCAF_REASON_NONE = 0,
    VSCAF_REASON_NO_OBJECT = 1,     /* its code is in no file: a compiler made it at run time */
    VSCAF_REASON_MACHINE = 2,       /* the code is not for a processor that vscaf-inspect knows */
    VSCAF_REASON_UNREADABLE = 3,    /* the file could not be read, or not in time */
    VSCAF_REASON_UNKNOWN_CODE = 4,  /* an instruction or a jump is not understood, or there is too much code */
    VSCAF_REASON_UNKNOWN_CALL = 5,  /* calls a function of another object that is not known */
    VSCAF_REASON_POINTER_CALL = 6,  /* calls a function through a pointer */
    VSCAF_REASON_UNKNOWN_STORE = 7, /* writes to a place that is not understood */
    VSCAF_REASON_TELLS = 8,         /* the team's size leaves the memory of its threads */
    VSCAF_REASON_NUMBER_ALONE = 9,  /* uses the thread's number, but not the team's size */
    VSCAF_REASON_COUNTS = 10,       /* each thread changes a shared value once, so the result counts the threads */
    VSCAF_REASON_KEEPS_DATA = 11,   /* reads or leaves thread-private data of other sections */
    VSCAF_REASON_FOREIGN_DATA = 12, /* uses thread-private data of another object */
    VSCAF_REASON_WAITS = 13,        /* a thread waits for another one */
    VSCAF_REASON_REPLACED = 14,     /* a function that it calls comes from another object than expected */
    VSCAF_REASON_COUNT
};

/* Set with some reasons, if the section may leave data in its threads for later sections: thread-private data of its own or of another
 * object. A runtime ends the threads that a smaller team does not have. So once such a section has run, each team of the
 * program has one thread, which leaves the others alone, or at least the program's own number. */
#define VSCAF_VERDICT_KEEPS 0x10000u

static inline uint32_t vscaf_verdict_word(enum vscaf_verdict verdict, enum vscaf_reason reason)
{
    return (uint32_t)verdict | (uint32_t)reason << 8;
}

/* A verdict word as it stands on a page: with its complement in the high half, so that damage to the page does not read
 * as a verdict. */
static inline uint64_t vscaf_answer(uint32_t word)
{
    return word | (uint64_t)~word << 32;
}

/* The verdict word of an answer. 0: there is none, or it is damaged. */
static inline uint32_t vscaf_answered(uint64_t answer)
{
    return (uint32_t)answer == (uint32_t)~(answer >> 32) ? (uint32_t)answer : 0;
}

static inline enum vscaf_verdict vscaf_verdict_of(uint32_t word)
{
    return (word & 0xffu) <= VSCAF_VERDICT_OWN ? (enum vscaf_verdict)(word & 0xffu) : VSCAF_VERDICT_OWN;
}

static inline enum vscaf_reason vscaf_reason_of(uint32_t word)
{
    uint32_t reason = word >> 8 & 0xffu;
    return reason < VSCAF_REASON_COUNT ? (enum vscaf_reason)reason : VSCAF_REASON_UNKNOWN_CODE;
}

/* Whether it may leave data in its threads: true of every word of which the contrary is not known. */
static inline int vscaf_verdict_keeps(uint32_t word)
{
    switch (vscaf_verdict_of(word)) {
    case VSCAF_VERDICT_FREE:
    case VSCAF_VERDICT_UP_TO: return 0;
    case VSCAF_VERDICT_OWN: break;
    default: return 1;
    }
    switch (vscaf_reason_of(word)) {
    case VSCAF_REASON_UNKNOWN_STORE:
    case VSCAF_REASON_TELLS:
    case VSCAF_REASON_NUMBER_ALONE:
    case VSCAF_REASON_COUNTS:
    case VSCAF_REASON_WAITS: return (word & VSCAF_VERDICT_KEEPS) != 0;
    default: return 1;
    }
}

#endif
