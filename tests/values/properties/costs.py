"""What parts of a program are estimated to cost, as JSON."""
import json

import jax
import jax.numpy as jnp
from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jaxlib.mlir.dialects import stablehlo

from vtpu.values.programs import Program


def program(function, *shapes):
    arguments = [jax.ShapeDtypeStruct(s, jnp.float32) for s in shapes]
    module = jax.jit(function).trace(*arguments).lower(lowering_platforms=("tpu",)).compiler_ir()
    code = xla_client._xla.mlir.serialize_portable_artifact(
        mlir.module_to_bytecode(module), stablehlo.get_current_version()
    )
    return Program("program", code, b"", 1, 1, len(module.body.operations[0].type.results), ())


def cost(part):
    return [part.cost.flops, part.cost.is_certain, list(part.parameters), list(part.outputs)]


def layers(x, w, y):
    out, kept = jax.lax.scan(lambda h, _: (h @ w, h.sum()), x, None, 10)
    return out, kept, y + 1


p = program(layers, (8, 8), (8, 8), (2,))
product = lambda a, b: jax.lax.composite(lambda a, b: a @ b, "user.product")(a, b)
until = program(lambda x: jax.lax.while_loop(lambda c: c.sum() > 1, lambda c: c * 0.5, x), (4,))
print(
    json.dumps(
        {
            "matmul": cost(program(lambda a, b: a @ b, (4, 8), (8, 16)).whole()),
            "composite": cost(program(product, (4, 8), (8, 16)).whole()),
            "loop": cost(p.part(frozenset({0}))),
            "beside the loop": cost(p.part(frozenset({2}))),
            "without a count": cost(until.whole()),
        }
    )
)
