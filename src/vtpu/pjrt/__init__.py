"""The PJRT C ABI as data.

`abi.json` lists version 0.90 of the ABI: the function table, every argument struct with field
names, types and offsets, and the enums; the profiler's table, whose size callers check, is that of
jaxlib 0.12. Nothing here is copied from a header; two views are derived from the data:

* `structs` builds ctypes structures, for calling another plugin (libtpu, in a worker process);
* `declarations` writes the C declarations that the native core is compiled against.

Tables and structs of the ABI only grow at the end, so a newer plugin can be called with these.
"""
