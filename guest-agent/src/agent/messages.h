/* Messages between agent and host: acts on lines that came in, and writes lines that are due. The functions are
 * callbacks of the port; their context is the agent. */
#ifndef VSCAF_MESSAGES_H
#define VSCAF_MESSAGES_H

#include <stdbool.h>

#include "agent/agent.h"
#include "host/line_buffer.h"
#include "host/port.h"

line_handler messages_handle;
port_line_source messages_next;

/* Whether a line should be sent now. */
bool messages_due(const struct agent *agent);

#endif
