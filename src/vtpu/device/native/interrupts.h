/* Ctrl-C while the main thread waits in C++ for another thread.
 *
 * Python runs its signal handlers in the main thread only, which on some releases of jaxlib waits for
 * a compiling thread and cannot run Python. While such a thread waits for the compiler, the handler of
 * SIGINT is chained: ours notes the signal and calls the one that was there. It is put back when the
 * last compile ends. A handler that is not Python's own is left alone.
 */
#ifndef VTPU_INTERRUPTS_H
#define VTPU_INTERRUPTS_H

#include <stdbool.h>

void vt_watch_interrupts(bool watch); /* nests */
bool vt_interrupted(void);

#endif
