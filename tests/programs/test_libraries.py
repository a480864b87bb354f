"""Training programs of the libraries around JAX run unmodified."""

from __future__ import annotations

from pathlib import Path

from running import Bench, source_of
from vtpu.analysis.run.transfers import Direction

SCRIPTS = Path(__file__).with_name("scripts")
F32, I32, I64 = 4, 4, 8


def test_flax_nnx_with_optax(bench: Bench) -> None:
    run = bench.run(SCRIPTS / "flax_nnx_optax.py")

    run.succeeded("parameters 31562 loss shape () updates ()\n")
    step = run.program("jit_train_step")
    assert (step.compiles, step.calls) == (1, 4)
    assert step.argument_bytes > 3 * 31562 * F32  # with both moments of Adam
    images, labels = 32 * 28 * 28 * F32, 32 * I32
    (batches,) = run.transfers(Direction.HOST_TO_DEVICE, "train_step(model, optimizer")
    assert (batches.count, batches.bytes) == (2 * 4, 4 * (images + labels))
    assert run.transfers(Direction.DEVICE_TO_HOST) == []
    run.peaked_at("loss = train_step(model, optimizer, images, labels)", devices=1)


def test_flax_linen_with_optax(bench: Bench) -> None:
    run = bench.run(SCRIPTS / "flax_linen_optax.py")

    run.succeeded("leaves 35 loss float32 ()\n")
    step = run.program("jit_train_step")
    assert (step.compiles, step.calls) == (1, 4)
    tokens = 8 * 65 * I32
    (batches,) = run.transfers(Direction.HOST_TO_DEVICE, "train_step(state, tokens)")
    assert (batches.count, batches.bytes) == (4 + 1, 4 * tokens + I32)  # and the step's number
    assert step.alias_bytes > 0.99 * step.output_bytes  # all of the state is donated
    run.peaked_at("state, loss = train_step(state, tokens)", devices=1)
    assert run.summary.hbm[0].in_use_bytes < step.output_bytes + 2048


def test_equinox_with_donation(bench: Bench) -> None:
    run = bench.run(SCRIPTS / "equinox_train.py")

    run.succeeded(run.printed)
    assert 0 < float(run.printed.removeprefix("first layer (256, 64) loss ")) < 10
    step = run.program("jit_train_step")
    assert (step.compiles, step.calls) == (1, 5)
    weights = (64 * 256 + 256 * 256) * F32
    assert step.alias_bytes >= 2 * weights  # and momentum
    (batches,) = run.transfers(Direction.HOST_TO_DEVICE, "train_step((x, x.mean")
    assert (batches.count, batches.bytes) == (10, 5 * 128 * (64 + 1) * F32)
    (read,) = run.transfers(Direction.DEVICE_TO_HOST)
    assert (read.count, read.bytes) == (1, F32)
    run.peaked_at("train_step((x, x.mean(axis=1)), model, state)", devices=1)


def test_keras_fit_and_predict(bench: Bench) -> None:
    run = bench.run(SCRIPTS / "keras_fit.py")

    run.succeeded(
        "epochs 2 measures ['accuracy', 'loss', 'val_accuracy', 'val_loss']\npredictions (5, 10)\n"
    )
    calls = {p.name: (p.compiles, p.calls) for p in run.summary.programs}
    assert calls["jit_train_step"] == (1, 2 * 2)  # 64 rows in batches of 32
    assert calls["jit_test_step"] == (1, 2)
    assert calls["jit_predict_step"] == (1, 1)
    assert run.program("jit_train_step").alias_bytes > 3 * 27046 * F32  # weights and moments
    (predicted,) = run.transfers(Direction.HOST_TO_DEVICE, "model.predict(images[:5]")
    assert predicted.bytes == 5 * 28 * 28 * F32
    files = {Path(t.line.file).name for t in run.summary.transfers}
    assert "threading.py" not in files  # Keras reads its metrics in threads of its own
    run.peaked_at("history = model.fit(", devices=1)


def test_orbax_saves_in_the_middle_and_restores_spread_over_all_devices(bench: Bench) -> None:
    run = bench.run(SCRIPTS / "orbax_resume.py")

    shapes = "{'params': {'down': (1024, 256), 'up': (256, 1024)}, 'step': ()}"
    run.succeeded(f"saved [3]\nrestored P('data',) {shapes}\ntrained on 8 devices (32, 1024)\n")
    step = run.program("jit_step")
    assert (step.compiles, step.calls) == (2, 3 + 2 + 2)  # alone, and on eight devices
    weights = 2 * 256 * 1024 * F32
    (saved,) = run.transfers(Direction.DEVICE_TO_HOST)
    assert "manager.save(3" in source_of(saved.line)
    assert (saved.count, saved.bytes) == (3, weights + I32)
    (restored,) = run.transfers(Direction.HOST_TO_DEVICE, "manager.restore(3")
    assert (restored.count, restored.bytes) == (3 * 8, weights + 8 * I32)
    assert all(d.in_use_bytes > weights // 8 for d in run.summary.hbm)
