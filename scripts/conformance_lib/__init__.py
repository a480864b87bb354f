"""JAX's own test suite as the conformance suite of the virtual slice.

The tests come from a checkout of JAX at the tag of the installed release; nothing of them is kept
here. What is kept, under `tests/conformance`, are the names of the tests that are known to fail,
each with its reason, and the list of the files that are run.

* `cli` reads the command line, runs files side by side, prints, exits 0 when all is as expected;
* `running` runs one file in pytest processes, a new one behind every crash;
* `inside` is the pytest plugin within them;
* `expected` reads, compares and rewrites the lists of known failures;
* `table` prints.
"""
