/* Interned Python stacks. All of this needs the interpreter's lock. */
#ifndef VTPU_STACKS_H
#define VTPU_STACKS_H

#include <Python.h>
#include <stdint.h>

typedef struct vt_frame {
  PyCodeObject *code;
  int64_t lasti; /* byte offset of the instruction, for PyCode_Addr2Line */
} vt_frame;

uint32_t vt_stack_of(PyFrameObject *frame); /* the stack that ends in `frame` */
size_t vt_stack_count(void);                /* stacks are numbered from 1 */
uint32_t vt_stack_frames(size_t number, const vt_frame **frames); /* innermost first */

#endif
