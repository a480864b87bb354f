"""JAX's paths of operations."""

import pytest

from vtpu.program.op_names import Phase, layer_of, phase_of


@pytest.mark.parametrize(
    ("path", "layer", "phase"),
    [
        ("jit(step)/add", "", Phase.OTHER),
        ("jit(step)/jvp(block_3)/attn/dot_general", "block_3/attn", Phase.FORWARD),
        ("jit(step)/transpose(jvp(block_3))/attn/dot_general", "block_3/attn", Phase.BACKWARD),
        (
            "jit(step)/jvp(Model)/while/body/layers/mlp/dot_general",
            "Model/layers/mlp",
            Phase.FORWARD,
        ),
        ("jit(step)/jvp(jit(log_softmax))/reduce_max", "", Phase.FORWARD),
        ("jit(step)/jvp()/while/body/jit(relu)/max", "", Phase.FORWARD),
        (
            "jit(step)/transpose(jvp(Model))/checkpoint/rematted_computation/mlp/tanh",
            "Model/mlp",
            Phase.RECOMPUTED,
        ),
        ("jit(f)/vmap(encoder)/conv/conv_general_dilated", "encoder/conv", Phase.OTHER),
        ("jit(f)/cond/branch_1_fun/head/mul", "head", Phase.OTHER),
        ("jit(f)/jvp(attn)/bhk,bthk->bht/dot_general", "attn", Phase.FORWARD),
        ("jit(f)/jvp(ij,jk)/dot_general", "", Phase.FORWARD),
        ("jit(f)/...i,ij->...j/dot_general", "", Phase.OTHER),
        ("params['layers'][0]['w']", "", Phase.OTHER),
        ("", "", Phase.OTHER),
    ],
)
def test_a_path_names_its_layer_and_phase(path, layer, phase):
    assert (layer_of(path), phase_of(path)) == (layer, phase)
