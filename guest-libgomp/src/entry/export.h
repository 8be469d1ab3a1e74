/* Exports a symbol from the library. All other symbols are hidden. */
#ifndef VSCAF_GOMP_EXPORT_H
#define VSCAF_GOMP_EXPORT_H

#define VSCAF_EXPORT __attribute__((visibility("default")))

#endif
