"""Time and memory of `vtpu explain` on a dump folder of 100 MB and on 15,000 instructions.

python benchmarks/explain.py

The folder has 60 modules as XLA:TPU dumps them (each with its text and earlier stages), made of one
instruction that is repeated; the largest module has 15,000 instructions with a heap trace.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from vtpu.reading.wire import write_field as field
from vtpu.reading.wire import write_varint

INSTRUCTIONS = 15_000
MODULES = 60
FOLDER_BYTES = 100 << 20
ENTRY = 1
F32 = 11
BUFFER_BYTES = 4 << 20
STAGES = ("before_optimizations", "after_optimizations_before_buffer_assignment")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_folder(folder)
        size = sum(f.stat().st_size for f in folder.iterdir())
        measure(f"dump folder, {size / 1e6:.0f} MB, {MODULES} modules", folder, size)
        proto = folder / f"{stem(0)}.after_optimizations.hlo.pb"
        measure(f"HloProto, {INSTRUCTIONS:,} instructions", proto, proto.stat().st_size)
        text = folder / "module.txt"
        text.write_text(hlo_text(INSTRUCTIONS))
        measure(f"HLO text, {INSTRUCTIONS:,} instructions", text, text.stat().st_size)
        log = folder / "train.log"
        log.write_text(long_log())
        measure(f"log, {log.stat().st_size / 1e6:.0f} MB", log, log.stat().st_size)


def measure(what, path, size):
    began = time.perf_counter()
    command = [sys.executable, "-m", "vtpu", "explain", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    elapsed = time.perf_counter() - began
    assert status == 0, status
    peak = usage.ru_maxrss * 1024
    cpu = usage.ru_utime + usage.ru_stime
    print(
        f"{what}: {elapsed:.2f} s ({cpu:.2f} s of CPU), {peak / 1e6:.0f} MB at most, {peak / size:.1f} times {size / 1e6:.0f} MB"
    )


# ---- what is read ------------------------------------------------------------------------------


def make_folder(folder):
    """Small modules beside a large one; texts and earlier stages fill the rest."""
    for number in range(MODULES):
        count = INSTRUCTIONS if number == 0 else 500
        module = hlo_module(count)
        proto = field(1, module) + field(3, buffer_assignment(count))
        (folder / f"{stem(number)}.after_optimizations.hlo.pb").write_bytes(proto)
        for stage in STAGES:
            (folder / f"{stem(number)}.{stage}.hlo.pb").write_bytes(field(1, module))
    left = FOLDER_BYTES - sum(f.stat().st_size for f in folder.iterdir())
    line = '  %add = f32[1024,1024]{1,0:T(8,128)} add(%x, %y), metadata={op_name="jit(step)/add"}\n'
    for number in range(MODULES):
        text = line * (left // MODULES // len(line))
        (folder / f"{stem(number)}.after_optimizations.txt").write_text(text)


def stem(number):
    return f"module_{number:04}.jit_step_{number}.cl_933746096"


def shape():
    tile = field(6, field(1, packed(8, 128)))
    layout = field(1, packed(1, 0)) + tile
    return field(2, F32) + field(3, packed(1024, 1024)) + field(5, layout)


def packed(*numbers):
    return b"".join(write_varint(n) for n in numbers)


def hlo_module(count):
    instructions = b"".join(field(2, instruction(n)) for n in range(count))
    computation = field(1, "main") + instructions + field(5, ENTRY) + field(6, count)
    sequence = field(1, ENTRY) + field(2, field(1, packed(*range(1, count + 1))))
    return b"".join([
        field(1, "jit_step"), field(2, "main"), field(3, computation), field(6, ENTRY),
        field(7, field(1, sequence)), field(17, stack_frames()),
    ])  # fmt: skip


def instruction(number):
    """A parameter first, then additions of the two before."""
    opcode = "add" if number else "parameter"
    operands = [max(number, 1), max(number - 1, 1)] if number else []
    metadata = field(2, f"jit(step)/jvp(block_{number // 40})/add") + field(15, number % 200 + 1)
    parts = [
        field(1, f"{opcode}.{number}"),
        field(2, opcode),
        field(3, shape()),
        field(7, metadata),
    ]
    parts += [field(35, number + 1), field(36, packed(*operands))]
    return b"".join(parts)


def stack_frames():
    parts = [field(1, "train.py"), field(2, "step")]
    parts += [
        field(3, field(1, 1) + field(2, 1) + field(3, line) + field(4, 1)) for line in range(1, 201)
    ]
    parts += [field(4, field(1, n)) for n in range(1, 201)]
    return b"".join(parts)


def buffer_assignment(count):
    """One argument, and a heap in which every value lives until the second one behind it."""
    buffers = b"".join(field(1, buffer(n)) for n in range(count))
    argument = field(1, 0) + field(2, BUFFER_BYTES) + field(5, 1) + field(9, placed(0, 0))
    heap_bytes = 4 * BUFFER_BYTES
    inside = b"".join(field(9, placed(n, n % 4 * BUFFER_BYTES)) for n in range(1, count))
    heap = field(1, 1) + field(2, heap_bytes) + inside
    return buffers + field(3, argument) + field(3, heap) + field(4, heap_trace(count))


def buffer(number):
    place = field(4, number + 1)
    return field(1, number) + field(2, BUFFER_BYTES) + field(3, place)


def placed(number, offset):
    return field(1, number) + field(2, offset) + field(3, BUFFER_BYTES)


def heap_trace(count):
    events = []
    for number in range(1, count):
        events.append(event(0, number))
        if number > 3:
            events.append(event(1, number - 3))
    return b"".join(field(1, e) for e in events) + field(3, 1)


def event(kind, number):
    return b"".join([
        field(1, kind), field(2, number), field(3, "main"), field(4, f"add.{number}"),
    ])  # fmt: skip


def hlo_text(count):
    shape = "f32[1024,1024]{1,0:T(8,128)}"
    lines = ["HloModule jit_step, is_scheduled=true", "", "ENTRY %main {"]
    lines.append(f'  %p.0 = {shape} parameter(0), metadata={{op_name="x"}}')
    names = ["p.0"]
    for number in range(1, count):
        root = "ROOT " if number == count - 1 else ""
        names.append(f"add.{number}")
        lines.append(
            f"  {root}%add.{number} = {shape} add(%{names[-2]}, %{names[max(-3, -len(names))]}),"
            f' metadata={{op_name="jit(step)/jvp(block_{number // 40})/add"}}'
        )
    return "\n".join([*lines, "}", ""])


def long_log():
    """Half a million lines with an error among them."""
    line = "I0819 10:02:37.123456 4242 trainer.py:88] step 1234 loss 2.345 grad_norm 0.87\n"
    error = (
        "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on "
        "HBM, the total memory required for HLO temporaries (18.12G) exceeds available HBM (15.75G).\n"
    )
    return line * 250_000 + error + line * 250_000


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
