#include "code/code_reader.h"

#include <elf.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "code/x86/functions.h"
#include "code/x86/thread_data.h"
#include "code/x86/walk.h"

/* Only one exists: it is too large for a program's stack, and a section needs it only once. */
static struct inspection inspection_state;
/* The process whose thread uses it; 0: none does. In a child made by fork it may be another process: then that thread
 * does not exist here. */
static _Atomic pid_t inspecting_process;

/* Waits for other threads without a limit. With a limit, a section would keep the program's own number of threads only
 * because the host is busy. Sleeps, so that a thread of any priority lets the other one go on. */
static void begin_inspection(void)
{
    struct timespec pause = {.tv_nsec = 50000};
    pid_t own = getpid(), seen = 0;
    /* Acquire, with the release in end_inspection: each thread sees the state that the last one left, and overwrites
     * it. */
    while (!atomic_compare_exchange_strong_explicit(&inspecting_process, &seen, own, memory_order_acquire,
                                                    memory_order_relaxed))
        if (seen == own) {
            nanosleep(&pause, NULL);
            seen = 0;
        }
}

static void end_inspection(void)
{
    atomic_store_explicit(&inspecting_process, 0, memory_order_release);
}

static struct code_findings inspect(struct inspection *in, const struct code_view *view, uintptr_t outlined_function)
{
    in->view = view;
    in->findings = (struct code_findings){.unsure = false};
    in->written.count = in->slot_count = in->states_used = in->followed_count = 0;
    in->steps = 0;
    in->thread_number = in->team_size = in->asked = in->master = false;
    in->initial_exec = object_has_relocation(view, R_X86_64_TPOFF64);
    in->recording = true;
    in->at = outlined_function;
    code_start(&in->code, view);
    struct state state = {.reached = true};
    state.registers[RSP].kind = VALUE_STACK;
    follow_address(in, outlined_function, &state, 0);
    if (in->code.incomplete && !false) {
        in->findings.unsure = true;
        /* The part that was not read may read any thread data that the other part uses. */
        in->master = false;
        if (in->findings.touches_thread_data)
            data_record_kept_read(in);
    }
    in->findings.asks_team_size = in->team_size;
    in->findings.takes_number_alone = in->thread_number && !in->team_size;
    /* It may divide its work by a number that it is told while it runs. */
    in->findings.tells_number |= in->asked && !in->team_size && (in->thread_number || in->findings.unsure);
    in->findings.instructions = in->code.instruction_count;
    return in->findings;
}

struct code_findings code_inspect(const struct code_view *view, uintptr_t outlined_function)
{
    if (!object_code_bytes(view, outlined_function))
        return code_not_read(view);
    begin_inspection();
    struct code_findings findings = inspect(&inspection_state, view, outlined_function);
    end_inspection();
    return findings;
}
