"""Every setting that is a number, as infinity, NaN, beyond 64 bits or no number: taken, or refused by its name."""

import inspect
import math

import numpy as np
import pytest

from grilly import errors, kernels, nn, optim, quant, train, utils
from grilly.program import Graph

ODD = (math.inf, -math.inf, math.nan, np.float64("nan"), np.float32("inf"), 2**70, -(2**70), "text", [1], 1j, b"x", {})
X = np.ones((2, 4), np.float32)
ONES = np.ones(4, np.float32)


def parameters():
    return [nn.Parameter(np.ones(3))]


def rated():
    return optim.SGD(parameters(), lr=0.1, momentum=0.5)


def on(kind, first):
    """A constructor whose first argument is made anew."""
    return lambda **given: kind(first(), **given)


def initialised(name):
    return lambda **given: getattr(utils, name)(np.ones((3, 3), np.float32), **given)


def of_graph(name, *shapes):
    """An op of a graph with these attributes."""

    def call(**attributes):
        graph = Graph()
        return graph.call(name, *(graph.input(f"operand {n}", shape) for n, shape in enumerate(shapes)), **attributes)

    return call


#: What takes settings, and valid ones.
CALLS = {
    "Dropout": (nn.Dropout, {"p": 0.5}),
    "LayerNorm": (lambda **given: nn.LayerNorm(**given)(X), {"normalized_shape": 4, "eps": 1e-5}),
    "RMSNorm": (lambda **given: nn.RMSNorm(**given)(X), {"normalized_shape": 4, "eps": 1e-6}),
    "Linear": (nn.Linear, {"in_features": 4, "out_features": 2}),
    "Embedding": (nn.Embedding, {"num_embeddings": 4, "embedding_dim": 2}),
    "MultiheadAttention": (nn.MultiheadAttention, {"embed_dim": 4, "num_heads": 2, "dropout": 0.1}),
    "TransformerEncoderLayer": (
        nn.TransformerEncoderLayer, {"d_model": 4, "nhead": 2, "dim_feedforward": 8, "dropout": 0.1},
    ),
    "RoPE": (
        lambda base, scaling: nn.RoPE(4, base=base, scaling=scaling)(np.ones((1, 2, 1, 4), np.float32)),
        {"base": 1e4, "scaling": 1.0},
    ),
    "Oja": (nn.Oja, {"in_features": 4, "out_features": 2, "learning_rate": 0.1}),
    "Sanger": (nn.Sanger, {"in_features": 4, "out_features": 2, "learning_rate": 0.1}),
    "Neurogenesis": (nn.Neurogenesis, {"in_features": 4, "capacity": 2, "learning_rate": 0.1, "threshold": 1e-3}),
    "StreamingWhitening": (nn.StreamingWhitening, {"features": 4, "eps": 1e-6, "momentum": 0.1}),
    "Softmax": (lambda dim: nn.Softmax(dim)(X), {"dim": -1}),
    "CrossEntropyLoss": (lambda **given: nn.CrossEntropyLoss(**given)(X, [0, 1]), {"ignore_index": -100}),
    "Adam": (on(optim.Adam, parameters), {"lr": 0.1, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.0}),
    "AdamW": (on(optim.AdamW, parameters), {"lr": 0.1, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.0}),
    "SGD": (on(optim.SGD, parameters), {"lr": 0.1, "momentum": 0.1, "weight_decay": 0.0, "dampening": 0.0}),
    "StepLR": (on(optim.StepLR, rated), {"step_size": 3, "gamma": 0.1}),
    "LinearLR": (on(optim.LinearLR, rated), {"start_factor": 0.3, "end_factor": 1.0, "total_iters": 5}),
    "CosineAnnealingLR": (on(optim.CosineAnnealingLR, rated), {"T_max": 10, "eta_min": 0.0}),
    "OneCycleLR": (
        on(optim.OneCycleLR, rated),
        {
            "max_lr": 0.1, "total_steps": 10, "pct_start": 0.3, "div_factor": 25.0, "final_div_factor": 1e4,
            "base_momentum": 0.8, "max_momentum": 0.9,
        },
    ),
    "ReduceLROnPlateau": (
        on(optim.ReduceLROnPlateau, rated),
        {"factor": 0.1, "patience": 3, "threshold": 1e-4, "cooldown": 0, "min_lr": 0.0, "eps": 1e-8},
    ),
    "layer_norm_linear": (lambda eps: kernels.layer_norm_linear(X, ONES, ONES, X, eps=eps), {"eps": 1e-5}),
    "residual_layer_norm": (lambda eps: kernels.residual_layer_norm(X, X, ONES, ONES, eps=eps), {"eps": 1e-5}),
    "softmax_dropout": (lambda **given: kernels.softmax_dropout(X, **given), {"p": 0.1, "seed": 1, "offset": 0}),
    "select_config": (kernels.select_config, {"head_dim": 64}),
    "quantize_weights_1bit": (lambda group_size: quant.quantize_weights_1bit(X, group_size), {"group_size": 4}),
    "fused_relu_dropout": (lambda p: quant.fused_relu_dropout(X, p), {"p": 0.5}),
    "TransformerConfig": (
        lambda **given: train.TransformerConfig(**given).parameter_count,
        {
            "vocab_size": 256, "d_model": 16, "num_layers": 1, "num_heads": 2, "ffn_dim": 32, "max_seq_len": 16,
            "dropout": 0.0,
        },
    ),
    "kaiming_normal_": (initialised("kaiming_normal_"), {"a": 1.0}),
    "xavier_uniform_": (initialised("xavier_uniform_"), {"gain": 1.0}),
    "graph layer_norm": (of_graph("layer_norm", (2, 4), (4,), (4,)), {"eps": 1e-5}),
    "graph matmul": (of_graph("matmul", (2, 4), (4, 2)), {"scale": 1.0}),
    "graph dropout": (of_graph("dropout", (2, 4)), {"p": 0.1, "seed": 1, "offset": 1}),
    "graph filled": (lambda **given: Graph().filled(**given), {"number": 1.0, "shape": (2,)}),
    "graph input": (lambda shape: Graph().input("x", shape), {"shape": (2,)}),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", CALLS)
def test_odd_numbers(name):
    call, valid = CALLS[name]
    call(**valid)
    for setting, odd in ((setting, odd) for setting in valid for odd in ODD):
        try:
            call(**{**valid, setting: odd})
        except errors.GrillyError as error:
            if not isinstance(odd, str | list | complex | bytes | dict):
                assert setting in str(error), f"{setting}={odd!r}: {error}"
        except Exception as error:  # noqa: BLE001
            pytest.fail(f"{name}({setting}={odd!r}) raised {type(error).__name__}: {error}")


def test_every_number_of_layers_and_optimisers_is_tried():
    """Other than those that have no effect."""
    tried = {(name, setting) for name, (_, valid) in CALLS.items() for setting in valid}
    idle = {("RoPE", "head_dim"), ("RoPE", "max_seq_len"), ("RoSwish", "alpha_init"), ("RoSwish", "beta_init")}
    like = {("TransformerDecoderLayer", "dropout")}
    for module in (nn, optim):
        for name in module.__all__:
            made = getattr(module, name)
            if not inspect.isclass(made):
                continue
            numbers = inspect.signature(made).parameters.values()
            settings = {(name, p.name) for p in numbers if type(p.default) is float}
            assert settings <= tried | idle | like, settings - tried - idle
