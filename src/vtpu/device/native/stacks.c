/* Python stacks, interned: the whole stack of a call is kept once and known by a number.
 *
 * A stack is the sequence of (code object, instruction offset) from the innermost frame outwards.
 * Guarded by the interpreter's lock. Code objects are kept alive, so that their addresses stay
 * theirs and lines can be looked up later.
 */
#include <Python.h>
#include <frameobject.h>

#include "core.h"
#include "leaving.h"
#include "stacks.h"

enum { DEEPEST = 256 }; /* frames kept of one stack; the outermost are cut */

typedef struct stack {
  uint64_t hash;
  uint32_t depth;
  vt_frame *frames;
} stack;

static stack *stacks; /* by number - 1 */
static size_t num_stacks, stacks_capacity;
static uint32_t *slots; /* number, or 0 */
static size_t num_slots;

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdu;
}

static bool grow_slots(void) {
  size_t size = num_slots ? num_slots * 2 : 1024;
  uint32_t *grown = calloc(size, sizeof *grown);
  if (!grown) return false;
  for (size_t i = 0; i < num_stacks; i++) {
    size_t at = stacks[i].hash & (size - 1);
    while (grown[at]) at = (at + 1) & (size - 1);
    grown[at] = (uint32_t)i + 1;
  }
  free(slots);
  slots = grown;
  num_slots = size;
  return true;
}

static uint32_t add(uint64_t hash, const vt_frame *frames, uint32_t depth, size_t slot) {
  if (num_stacks == stacks_capacity) {
    size_t capacity = stacks_capacity ? stacks_capacity * 2 : 256;
    stack *grown = realloc(stacks, capacity * sizeof *grown);
    if (!grown) return 0;
    stacks = grown;
    stacks_capacity = capacity;
  }
  vt_frame *kept = malloc(depth * sizeof *kept);
  if (!kept) return 0;
  memcpy(kept, frames, depth * sizeof *kept);
  for (uint32_t i = 0; i < depth; i++) Py_INCREF(kept[i].code);
  stacks[num_stacks] = (stack){hash, depth, kept};
  slots[slot] = (uint32_t)++num_stacks;
  return slots[slot];
}

static uint32_t intern(const vt_frame *frames, uint32_t depth) {
  if (2 * (num_stacks + 1) > num_slots && !grow_slots()) return 0;
  uint64_t hash = depth;
  for (uint32_t i = 0; i < depth; i++)
    hash = mix(mix(hash, (uint64_t)(uintptr_t)frames[i].code), (uint64_t)frames[i].lasti);
  size_t at = hash & (num_slots - 1);
  for (; slots[at]; at = (at + 1) & (num_slots - 1)) {
    const stack *known = &stacks[slots[at] - 1];
    if (known->hash == hash && known->depth == depth &&
        memcmp(known->frames, frames, depth * sizeof *frames) == 0)
      return slots[at];
  }
  return add(hash, frames, depth, at);
}

/* Walks outwards from `frame`, whose reference it takes. */
static uint32_t walk(PyFrameObject *frame) {
  vt_frame frames[DEEPEST];
  uint32_t depth = 0;
  while (frame && depth < DEEPEST) {
    PyCodeObject *code = PyFrame_GetCode(frame);
    frames[depth++] = (vt_frame){code, PyFrame_GetLasti(frame)};
    Py_DECREF(code); /* the frame holds it for as long as we look */
    PyFrameObject *back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
  return depth ? intern(frames, depth) : 0;
}

uint32_t vt_stack_of(PyFrameObject *frame) {
  Py_INCREF(frame);
  return walk(frame);
}

static uint32_t stack_of_thread(void) {
  PyGILState_STATE state = PyGILState_Ensure();
  PyThreadState *thread = PyThreadState_Get();
  PyFrameObject *frame = PyThreadState_GetFrame(thread);
  uint32_t number = frame ? walk(frame) : 0;
  PyGILState_Release(state);
  return number;
}

uint32_t vt_stack_here(void) {
  volatile uint32_t number = 0;
  if (vt_python_alive()) VT_WITH_PYTHON(number = stack_of_thread());
  return number;
}

size_t vt_stack_count(void) { return num_stacks; }

uint32_t vt_stack_frames(size_t number, const vt_frame **frames) {
  *frames = stacks[number - 1].frames;
  return stacks[number - 1].depth;
}
