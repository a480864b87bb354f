"""Profiles in the form that `jax.profiler` collects and XProf opens: an XSpace, read and written.

`space` holds the values, `writing` and `reading` the bytes. Field numbers are those of openxla/xla
`third_party/tsl/tsl/profiler/protobuf/xplane.proto`.
"""
