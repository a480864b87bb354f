"""Training steps of decoders and mixtures of experts, built from tables.

`Model` says what is trained, `Run` how and where. `build` makes the training step of the two in the shape
that public trainers (MaxText) compile: scanned layers, remat by named tensors, weights spread over the mesh
by logical axes, attention by the Pallas kernels. `compile_step` compiles it for a slice without a chip.
"""

from benchmarks.models.calibration import from_calibration
from benchmarks.models.compiling import CompiledStep, compile_step
from benchmarks.models.model import Model
from benchmarks.models.run import Run
from benchmarks.models.step import Program, build
from benchmarks.models.tables import TableError, read_table

__all__ = [
    "CompiledStep",
    "Model",
    "Program",
    "Run",
    "TableError",
    "build",
    "compile_step",
    "from_calibration",
    "read_table",
]
