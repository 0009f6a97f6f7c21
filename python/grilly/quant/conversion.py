"""Conversion of loaded models to products in integers."""

from typing import TypeVar

from grilly.functional.checks import one_of
from grilly.inputs import need_type
from grilly.sentence_transformer.moving import Moving

__all__ = ["convert"]

Model = TypeVar("Model", bound=Moving)

#: The levels of the matrices, by the name of the conversion; none where they follow from the element type.
LEVELS = {"w1.58a8": "ternary", "1bit": "binary", "int8": ""}


def convert(model: Model, kind: str) -> Model:
    """The model with the products of its layers in integers, after training: rows of 8 bits, matrices of fewer.

    | kind | each matrix `w`, of queries, keys, and so on | rows `x` |
    |---|---|---|
    | `"w1.58a8"` | `q = clamp(round(w s), -1, 1)`, one `s = 1 / mean abs(w)` | int8, `127 / max abs(x)` per token |
    | `"1bit"` | `sign(w)`, -1 of 0, `s = 1 / mean abs(w)` per row | the same |
    | `"int8"` | as of `model.to(dtype="int8")`, which it is | |

    The weights are read again from the model's files, rounded and packed, of the first two four or eight values a
    byte; embeddings, norms, attention and modules after the layers stay in floating point, and the last line of
    `model.plan` names products that do. Of these two a model that was not trained so loses most of what it knows: they
    are for models that are trained further, and for measurements. `save_pretrained` writes the kind into config.json,
    `"w1.58a8"` as transformers' BitNet layers read it, and copies the weights unchanged.

    Args:
        model: A loaded model, which is changed.
        kind: As above.

    Returns:
        The model itself.

    Raises:
        InvalidArgumentError: Another kind.
        InvalidTypeError: `model` is no loaded model.
        UnsupportedError: The model has no layers, or its products are in integers already.
        NotFiniteError: A weight is NaN or infinite; the message names the tensor.
        UnusableError: After `close()`.

    Source: Ma et al., The Era of 1-bit LLMs: All Large Language Models are in 1.58 Bits (2024); Rastegari et al.,
    XNOR-Net (2016), for signs with a scale per row.

    Example:
        >>> from grilly import SentenceTransformer, quant
        >>> with SentenceTransformer("all-MiniLM-L6-v2", device="cpu") as other:
        ...     "quantized_linear" in quant.convert(other, "w1.58a8").plan
        True
    """
    one_of("convert", "kind", kind, tuple(LEVELS))
    need_type(model, Moving, "convert: model", "a loaded model")
    model._reload(dtype="int8" if kind == "int8" else None, rounded=LEVELS[kind])
    return model
