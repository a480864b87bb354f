#include "strides.h"

#include <string.h>

enum { MOST_DIMENSIONS = 64 };

static int64_t element_bytes(const vt_shape *shape) {
  int64_t count = 1;
  for (size_t i = 0; i < shape->rank; i++) count *= shape->dims[i];
  return count ? shape->logical_bytes / count : 1;
}

static void dense_strides(const vt_shape *shape, int64_t *strides) {
  int64_t stride = element_bytes(shape);
  for (size_t i = shape->rank; i-- > 0;) {
    strides[i] = stride;
    stride *= shape->dims[i];
  }
}

bool vt_strides_are_dense(const vt_shape *shape, const int64_t *strides) {
  int64_t stride = element_bytes(shape);
  for (size_t i = shape->rank; i-- > 0;) {
    if (shape->dims[i] != 1 && strides[i] != stride) return false;
    stride *= shape->dims[i];
  }
  return true;
}

/* Copies element by element along the dimensions from `i` on; the last in one go where it is dense
 * on both sides. */
static void copy(const vt_shape *shape, size_t i, int64_t size, char *to, const int64_t *to_strides,
                 const char *from, const int64_t *from_strides) {
  if (i == shape->rank) {
    memcpy(to, from, (size_t)size);
    return;
  }
  if (i + 1 == shape->rank && to_strides[i] == size && from_strides[i] == size) {
    memcpy(to, from, (size_t)(size * shape->dims[i]));
    return;
  }
  for (int64_t n = 0; n < shape->dims[i]; n++)
    copy(shape, i + 1, size, to + n * to_strides[i], to_strides, from + n * from_strides[i],
         from_strides);
}

void vt_gather(const vt_shape *shape, char *to, const char *from, const int64_t *strides) {
  int64_t dense[MOST_DIMENSIONS];
  dense_strides(shape, dense);
  copy(shape, 0, element_bytes(shape), to, dense, from, strides);
}

void vt_scatter(const vt_shape *shape, char *to, const char *from,
                const PJRT_Buffer_MemoryLayout *layout) {
  int64_t dense[MOST_DIMENSIONS], strides[MOST_DIMENSIONS];
  dense_strides(shape, dense);
  memcpy(strides, dense, shape->rank * sizeof *strides);
  if (layout && layout->type == PJRT_Buffer_MemoryLayout_Type_Strides) {
    memcpy(strides, layout->strides.byte_strides, shape->rank * sizeof *strides);
  } else if (layout && layout->tiled.minor_to_major_size == shape->rank) {
    int64_t stride = element_bytes(shape);
    for (size_t i = 0; i < shape->rank; i++) {
      int64_t dimension = layout->tiled.minor_to_major[i];
      strides[dimension] = stride;
      stride *= shape->dims[dimension];
    }
  }
  if (vt_strides_are_dense(shape, strides))
    memcpy(to, from, (size_t)shape->logical_bytes);
  else
    copy(shape, 0, element_bytes(shape), to, strides, from, dense);
}
