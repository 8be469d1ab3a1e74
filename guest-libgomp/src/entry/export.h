/* The one way a symbol leaves the library: everything else is hidden. */
#ifndef VSCAF_GOMP_EXPORT_H
#define VSCAF_GOMP_EXPORT_H

#define VSCAF_EXPORT __attribute__((visibility("default")))

#endif
