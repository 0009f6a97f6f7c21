"""Modules after Pooling on vectors that were pooled outside the model's plan, on the CPU in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly import _core
from grilly.errors import UnsupportedError
from grilly.everywhere import normalized
from grilly.safetensors_file import floats_of
from grilly.search.rows import Call
from grilly.sentence_transformer.modules import Module

__all__ = ["AFTER", "after_pooling", "check_after"]

Floats = npt.NDArray[np.float32]

#: The class of torch that a Dense names -> the operation's name of the function.
ACTIVATIONS = {
    "Tanh": "tanh",
    "Identity": "identity",
    "ReLU": "relu",
    "GELU": "gelu_erf",
    "SiLU": "silu",
    "Sigmoid": "sigmoid",
}
Weights = Callable[[str], "_core.Array | None"]


def weights_of(core: _core.EmbeddingModel, path: str) -> Weights:
    """The tensors of a module by their names, as float32 on the CPU; None for one that it does not have."""

    def read(name: str) -> _core.Array | None:
        found = _core.stored_tensor(core, f"{path}/{name}")
        if found is None:
            return None
        dtype, axes, given = found
        return _core.engine("cpu").upload(floats_of(dtype, given).reshape(axes))

    return read


def dense(call: Call, module: Module, weights: Weights, rows: Floats) -> Floats:
    """`act(W x + b)`; where the module says so, `x` is added, or its product with another matrix."""
    x, bias = _core.engine("cpu").upload(rows), weights("linear.bias")
    y = call("linear", x, weights("linear.weight"), bias, bias=bias is not None)[0]
    y = call("activation", y, kind=ACTIVATIONS[module.activation_function.rpartition(".")[2]])[0]
    if module.use_residual:
        matrix = weights("residual.weight")
        x = x if matrix is None else call("linear", x, matrix)[0]
        y = call("binary", y, x, kind="add")[0]
    found: Floats = y.numpy()
    return found


def layer_norm(call: Call, module: Module, weights: Weights, rows: Floats) -> Floats:
    """Layer normalisation with the module's weight and bias."""
    x = _core.engine("cpu").upload(rows)
    found: Floats = call("layer_norm", x, weights("norm.weight"), weights("norm.bias"), eps=1e-5)[0].numpy()
    return found


#: The modules after Pooling that are known here, and what each makes of the texts' vectors `(N, D)`.
AFTER: dict[str, Callable[[Call, Module, Weights, Floats], Floats]] = {
    "Dense": dense,
    "LayerNorm": layer_norm,
    "Normalize": lambda call, module, weights, rows: normalized(rows, call.numerics),
    "Dropout": lambda call, module, weights, rows: rows,
}


def after_pooling(model: Any, rows: Floats) -> Floats:
    """What the modules after the model's Pooling make of pooled vectors `(N, D)`."""
    call, listed = Call(model._core.numerics), model._rows()[0]
    for module, row in list(zip(model, listed, strict=True))[2:]:
        rows = AFTER[type(module).__name__](call, module, weights_of(model._core, row["path"]), rows)
    return rows


def check_after(model: Any) -> None:
    """Rejects modules after Pooling that compute something else than a text's vector of it."""
    for module in list(model)[2:]:
        name = type(module).__name__
        reads = {getattr(module, key, None) for key in ("module_input_name", "module_output_name")}
        if name not in AFTER or not reads <= {None, "sentence_embedding"}:
            raise UnsupportedError(f"windows and chunks of a model with {name} after its Pooling")
