/* What the agent and the host say to each other: lines that came are acted on, lines that are due are written.
 * Callbacks of the port; their context is the agent. */
#ifndef VSCAF_MESSAGES_H
#define VSCAF_MESSAGES_H

#include <stdbool.h>

#include "agent/agent.h"
#include "host/line_buffer.h"
#include "host/port.h"

line_handler messages_take;
port_line_source messages_next;

/* Whether a line is due. */
bool messages_due(const struct agent *agent);

#endif
