"""Contents of arrays on demand: what the host reads is computed on a CPU client of our own.

A simulated chip holds no numbers. What its arrays contain follows from what the host sent and from the
programs that ran, so it can be computed when somebody looks: `computing` finds which executions a value
depends on, `slicing` cuts from their programs what it does not depend on, `cpu_form` makes of the
rest a program for CPUs, `cpu_client` runs it. Nothing of that is an event of the virtual chip.
"""
