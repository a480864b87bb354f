/* Tells whether the host sends again what it sent before. */
#ifndef VTPU_FINGERPRINT_H
#define VTPU_FINGERPRINT_H

#include <stddef.h>
#include <stdint.h>

/* A number for `size` bytes, never negative: equal bytes have equal numbers, others almost never.
 * Of much memory only pieces are read, so that a transfer of gigabytes takes no longer for it: at most
 * 256 KiB, 50 microseconds. */
int64_t vt_fingerprint(const void *data, size_t size);

#endif
