/* The packet that asks for the status at the join socket: `vscaf-agent --status` sends it instead of a join. */
#ifndef VSCAF_STATUS_REQUEST_H
#define VSCAF_STATUS_REQUEST_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define STATUS_MAGIC 0x53435356u /* "VSCS" */
#define STATUS_VERSION 1u

struct status_request {
    uint32_t magic;
    uint32_t version;
};

/* The version, if the packet is a status request; else 0. */
static inline uint32_t status_request_version(const void *packet, size_t length)
{
    struct status_request request;
    if (length != sizeof(request))
        return 0;
    memcpy(&request, packet, sizeof(request));
    return request.magic == STATUS_MAGIC ? request.version : 0;
}

#endif
