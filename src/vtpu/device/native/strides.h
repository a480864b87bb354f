/* Copies between row-major bytes and host memory in another order. */
#ifndef VTPU_STRIDES_H
#define VTPU_STRIDES_H

#include "core.h"

/* Whether `strides` (bytes per dimension) are those of a row-major array. */
bool vt_strides_are_dense(const vt_shape *shape, const int64_t *strides);
/* Row-major `to` from an array with `strides`. */
void vt_gather(const vt_shape *shape, char *to, const char *from, const int64_t *strides);
/* An array in `layout` (NULL: row-major) from row-major `from`. */
void vt_scatter(const vt_shape *shape, char *to, const char *from,
                const PJRT_Buffer_MemoryLayout *layout);

#endif
