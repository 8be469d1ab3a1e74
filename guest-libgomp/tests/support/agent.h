/* A small agent: a process that hands out pages over its own socket. The test has the same pages and writes to them as
 * the agent would. */
#ifndef VSCAF_TEST_AGENT_H
#define VSCAF_TEST_AGENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include <vscaf/page.h>
#include <vscaf/verdict.h>

#define AGENT_PAGES 64

enum agent_answer {
    AGENT_JOINS,
    AGENT_OTHER_VERSION, /* refuses: another page version */
    AGENT_FULL,
    AGENT_GARBAGE,     /* bytes that are no answer, with a descriptor */
    AGENT_UNSEALED,    /* the page may shrink */
    AGENT_SHORT,       /* the page is half as long as its header says */
    AGENT_WRONG_MAGIC, /* the page has another magic number */
    AGENT_NO_PAGE,     /* welcome without a descriptor */
    AGENT_SILENT,      /* never answers */
    AGENT_CLOSES,      /* closes at once */
    AGENT_LATE,        /* joins, but only after half a second */
    AGENT_LATE_CLOSES, /* closes after half a second */
    AGENT_OLDER_PAGE,  /* hands out a page of version 1 */
    AGENT_NEWER_PAGE,  /* hands out a page of the version after this one */
    AGENT_HELD,        /* joins, but only when the test lets it */
};

/* Shared between test and agent process. */
struct agent_state {
    _Atomic bool listening;          /* the process runs */
    _Atomic bool answers;            /* it answers at once, or as soon as the machine runs it */
    _Atomic int connections;
    _Atomic bool released;           /* AGENT_HELD may answer */
    _Atomic int joins;               /* pages handed out; grows before the answer is sent */
    _Atomic int answered;            /* answers sent */
    _Atomic int closed[AGENT_PAGES]; /* the process of this page closed its socket */
    _Atomic int process[AGENT_PAGES];
    _Atomic bool calls_awaited;      /* a process may send more than its join */
    _Atomic int calls[AGENT_PAGES];  /* of the process of this page */
    _Atomic uint32_t call_number[AGENT_PAGES]; /* of the last one */
    char name[AGENT_PAGES][32];
};

struct agent {
    pid_t pid; /* 0: not running */
    char directory[64];
    char path[96];
    int memfds[AGENT_PAGES];
    struct vscaf_page *pages[AGENT_PAGES];
    struct agent_state *state;
};

/* How long the shim in this process was ready to wait for answers, in ms, in total. */
extern _Atomic int agent_waited_ms;

/* How a wait of the shim ends. */
enum agent_wait {
    AGENT_WAIT_OVER,        /* without an answer */
    AGENT_WAIT_INTERRUPTED, /* by a signal */
    AGENT_WAIT_EVENT,       /* by the agent, as late as the machine makes it */
};

/* Called in place of a wait. The test moves the clock that the shim reads. NULL: waits are real. */
extern enum agent_wait (*_Atomic agent_waits)(int wait_ms);

/* Makes pages and a socket path, and names the path in the environment. Nothing listens yet. */
void agent_prepare(struct agent *agent, uint32_t team_size, uint32_t team_limit);
/* Starts the agent. Returns when it is running. */
void agent_start(struct agent *agent, enum agent_answer answer);
/* Kills the agent with SIGKILL and waits for its end. */
void agent_kill(struct agent *agent);
/* Prepares and starts an agent that lets programs join. Most tests need only this. */
void agent_run(struct agent *agent, uint32_t team_size, uint32_t team_limit);

/* What the agent answers when a section is seen for the first time (vscaf/verdict.h): at once, because the answer stands
 * in each entry from the start. Without this call: that it is free. 0: nothing. */
void agent_answers(struct agent *agent, uint32_t word);

/* The number of different sections that the process has asked about on this page. */
uint32_t agent_asked(const struct vscaf_page *page);

#endif
