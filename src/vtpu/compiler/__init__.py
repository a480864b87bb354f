"""The real TPU compiler, kept out of the user's process.

libtpu prints, installs signal handlers and can abort, so it lives in child processes (`worker`),
which are started, spoken to and outlived by `pool`. What it answers is plain data (`results`), kept
by content in `cache`. `canonical` makes a program independent of where its source lines stand.
"""
