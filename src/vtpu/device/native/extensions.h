/* Extensions of the ABI that the slice offers: layouts, memory descriptions, profiler. */
#ifndef VTPU_EXTENSIONS_H
#define VTPU_EXTENSIONS_H

#include "pjrt.h"

PJRT_Extension_Base *vt_extensions(void);
PJRT_Extension_Base *vt_profiler_extension(void);
/* The size of the profiler's table that callers of this process expect. */
void vt_set_profiler_table_size(size_t size);

#endif
