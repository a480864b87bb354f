/* Extensions of the ABI that the slice offers: layouts, memory descriptions, profiler. */
#ifndef VTPU_EXTENSIONS_H
#define VTPU_EXTENSIONS_H

#include "pjrt.h"

PJRT_Extension_Base *vt_extensions(void);

#endif
