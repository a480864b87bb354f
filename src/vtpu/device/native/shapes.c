/* Interned shapes: one value per element type, dimensions and layout, kept for ever. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

pthread_mutex_t vt_shapes_lock = PTHREAD_MUTEX_INITIALIZER;
static vt_shape **shapes; /* by id */
static size_t num_shapes, shapes_capacity;

typedef struct table { /* open addressing, power of two */
  vt_shape **slots;
  size_t size, used;
} table;
static table by_layout, by_default;

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdu;
}

static uint64_t hash_of(PJRT_Buffer_Type type, const int64_t *dims, size_t rank, const char *text,
                        size_t text_size) {
  uint64_t hash = mix((uint64_t)type, rank);
  for (size_t i = 0; i < rank; i++) hash = mix(hash, (uint64_t)dims[i]);
  for (size_t i = 0; i < text_size; i++) hash = mix(hash, (unsigned char)text[i]);
  return hash;
}

static bool same(const vt_shape *shape, PJRT_Buffer_Type type, const int64_t *dims, size_t rank) {
  return shape->type == type && shape->rank == rank &&
         (rank == 0 || memcmp(shape->dims, dims, rank * sizeof *dims) == 0);
}

static vt_shape *find(const table *t, uint64_t hash, PJRT_Buffer_Type type, const int64_t *dims,
                      size_t rank, const char *text, size_t text_size) {
  if (!t->size) return NULL;
  for (size_t i = hash & (t->size - 1); t->slots[i]; i = (i + 1) & (t->size - 1)) {
    vt_shape *shape = t->slots[i];
    if (same(shape, type, dims, rank) &&
        (!text || (shape->layout_text_size == text_size &&
                   memcmp(shape->layout_text, text, text_size) == 0)))
      return shape;
  }
  return NULL;
}

static void place(table *t, uint64_t hash, vt_shape *shape) {
  size_t i = hash & (t->size - 1);
  while (t->slots[i]) i = (i + 1) & (t->size - 1);
  t->slots[i] = shape;
}

static uint64_t key_of(const table *t, const vt_shape *shape) {
  bool with_text = t == &by_layout;
  return hash_of(shape->type, shape->dims, shape->rank, shape->layout_text,
                 with_text ? shape->layout_text_size : 0);
}

static bool insert(table *t, vt_shape *shape) {
  if (t->used * 2 >= t->size) {
    table grown = {.size = t->size ? t->size * 2 : 256, .used = t->used};
    grown.slots = calloc(grown.size, sizeof *grown.slots);
    if (!grown.slots) return false;
    for (size_t i = 0; i < t->size; i++)
      if (t->slots[i]) place(&grown, key_of(t, t->slots[i]), t->slots[i]);
    free(t->slots);
    *t = grown;
  }
  place(t, key_of(t, shape), shape);
  t->used++;
  return true;
}

static void *copy(const void *from, size_t size) {
  void *to = malloc(size ? size : 1);
  if (to && size) memcpy(to, from, size);
  return to;
}

static vt_shape *make(PJRT_Buffer_Type type, const int64_t *dims, size_t rank, const char *text,
                      size_t text_size, const PJRT_Buffer_MemoryLayout_Tiled *tiled) {
  vt_shape *shape = calloc(1, sizeof *shape);
  if (!shape) return NULL;
  shape->type = type;
  shape->rank = rank;
  shape->dims = copy(dims, rank * sizeof *dims);
  shape->layout_text = copy(text, text_size);
  shape->layout_text_size = text_size;
  size_t tile_dims = 0;
  for (size_t i = 0; i < tiled->num_tiles; i++) tile_dims += tiled->tile_dim_sizes[i];
  PJRT_Buffer_MemoryLayout *layout = &shape->layout;
  layout->struct_size = sizeof *layout;
  layout->type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout->tiled = *tiled;
  layout->tiled.struct_size = sizeof layout->tiled;
  layout->tiled.extension_start = NULL;
  layout->tiled.minor_to_major = copy(tiled->minor_to_major, rank * sizeof(int64_t));
  layout->tiled.tile_dims = copy(tiled->tile_dims, tile_dims * sizeof(int64_t));
  layout->tiled.tile_dim_sizes = copy(tiled->tile_dim_sizes, tiled->num_tiles * sizeof(size_t));
  return shape;
}

const vt_shape *vt_shape_intern(PJRT_Buffer_Type type, const int64_t *dims, size_t rank,
                                const char *text, size_t text_size,
                                const PJRT_Buffer_MemoryLayout_Tiled *tiled, int64_t logical_bytes,
                                int64_t device_bytes, bool is_default) {
  uint64_t hash = hash_of(type, dims, rank, text, text_size);
  pthread_mutex_lock(&vt_shapes_lock);
  vt_shape *shape = find(&by_layout, hash, type, dims, rank, text, text_size);
  if (!shape && (shape = make(type, dims, rank, text, text_size, tiled))) {
    shape->logical_bytes = logical_bytes;
    shape->device_bytes = device_bytes;
    if (num_shapes == shapes_capacity) {
      shapes_capacity = shapes_capacity ? shapes_capacity * 2 : 256;
      shapes = realloc(shapes, shapes_capacity * sizeof *shapes);
    }
    shape->id = (uint32_t)num_shapes;
    shapes[num_shapes++] = shape;
    insert(&by_layout, shape);
  }
  if (shape && is_default) {
    hash = hash_of(type, dims, rank, "", 0);
    if (!find(&by_default, hash, type, dims, rank, NULL, 0)) insert(&by_default, shape);
  }
  pthread_mutex_unlock(&vt_shapes_lock);
  return shape;
}

size_t vt_shape_count(void) { return num_shapes; }

const vt_shape *vt_shape_at(size_t id) {
  pthread_mutex_lock(&vt_shapes_lock);
  const vt_shape *shape = id < num_shapes ? shapes[id] : NULL;
  pthread_mutex_unlock(&vt_shapes_lock);
  return shape;
}

/* A shape not seen before, with the layout `text` or the default. */
static const vt_shape *ask_python(PJRT_Buffer_Type type, const int64_t *dims, size_t rank,
                                  const char *text, PJRT_Error **error) {
  const vt_shape *volatile shape = NULL;
  vt_pause_begin();
  if (!vt_python_alive())
    *error = vt_error(PJRT_Error_Code_UNAVAILABLE, "vtpu: Python is shutting down");
  else if (text)
    VT_WITH_PYTHON(shape = vt_python.shape_with_layout(type, dims, rank, text, error));
  else
    VT_WITH_PYTHON(shape = vt_python.default_shape(type, dims, rank, error));
  vt_pause_end();
  return shape;
}

const vt_shape *vt_shape_default(PJRT_Buffer_Type type, const int64_t *dims, size_t rank,
                                 PJRT_Error **error) {
  uint64_t hash = hash_of(type, dims, rank, "", 0);
  pthread_mutex_lock(&vt_shapes_lock);
  const vt_shape *shape = find(&by_default, hash, type, dims, rank, NULL, 0);
  pthread_mutex_unlock(&vt_shapes_lock);
  if (shape) return shape;
  return ask_python(type, dims, rank, NULL, error);
}

/* Appends to out, staying within size. */
static void append(char *out, size_t size, const char *format, long long value) {
  size_t used = strlen(out);
  if (used < size) snprintf(out + used, size - used, format, value);
}

static int narrow_bits(PJRT_Buffer_Type type) {
  switch (type) {
    case PJRT_Buffer_Type_S4:
    case PJRT_Buffer_Type_U4:
    case PJRT_Buffer_Type_F4E2M1FN:
      return 4;
    case PJRT_Buffer_Type_S2:
    case PJRT_Buffer_Type_U2:
      return 2;
    default:
      return 0;
  }
}

void vt_layout_text(const PJRT_Buffer_MemoryLayout_Tiled *tiled, PJRT_Buffer_Type type, char *out,
                    size_t size) {
  out[0] = 0;
  append(out, size, "{", 0);
  for (size_t i = 0; i < tiled->minor_to_major_size; i++)
    append(out, size, i ? ",%lld" : "%lld", (long long)tiled->minor_to_major[i]);
  const int64_t *dim = tiled->tile_dims;
  for (size_t i = 0; i < tiled->num_tiles; i++) {
    append(out, size, i ? "(" : ":T(", 0);
    for (size_t j = 0; j < tiled->tile_dim_sizes[i]; j++, dim++)
      append(out, size, j ? ",%lld" : "%lld", (long long)*dim);
    append(out, size, ")", 0);
  }
  if (tiled->num_tiles && narrow_bits(type)) append(out, size, "E(%lld)", narrow_bits(type));
  append(out, size, "}", 0);
}

const vt_shape *vt_shape_with_layout(PJRT_Buffer_Type type, const int64_t *dims, size_t rank,
                                     const PJRT_Buffer_MemoryLayout *layout, PJRT_Error **error) {
  if (!layout || layout->type != PJRT_Buffer_MemoryLayout_Type_Tiled)
    return vt_shape_default(type, dims, rank, error);
  char text[512];
  vt_layout_text(&layout->tiled, type, text, sizeof text);
  uint64_t hash = hash_of(type, dims, rank, text, strlen(text));
  pthread_mutex_lock(&vt_shapes_lock);
  const vt_shape *shape = find(&by_layout, hash, type, dims, rank, text, strlen(text));
  pthread_mutex_unlock(&vt_shapes_lock);
  if (shape) return shape;
  return ask_python(type, dims, rank, text, error);
}
