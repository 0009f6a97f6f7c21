"""Settings of a cross-encoder: its labels, the function of its logits, the layers that compute in float32."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from grilly.errors import InvalidArgumentError, UnsupportedError
from grilly.inputs import logger, need_type, positive
from grilly.scores import Activation, activation_of, class_of, identity, sigmoid
from grilly.sentence_transformer.aliases import older_name
from grilly.sentence_transformer.calls import Calls
from grilly.sentence_transformer.saving import Saving

__all__ = ["Scoring", "check_tokens", "without_labels"]


class Scoring(Calls, Saving):
    """A loaded model of scores, with its settings."""

    _reads_others: ClassVar[bool] = True
    _card = (
        "text-ranking",
        "Pairs of texts to scores, {} of each",
        'scores = model.predict([("A query.", "A text."), ("A query.", "Another.")])',
    )
    activation_fn: Activation
    _in_float32: tuple[str, ...] = ()
    kept = (*Calls.kept, "activation_fn", "_in_float32")

    @property
    def keep_in_fp32_modules(self) -> list[str]:
        """Paths of linear layers that compute in float32; setting it is `set_keep_in_fp32_modules`."""
        return list(self._in_float32)

    @keep_in_fp32_modules.setter
    def keep_in_fp32_modules(self, module_names: Sequence[str]) -> None:
        self.set_keep_in_fp32_modules(module_names)

    def set_keep_in_fp32_modules(self, module_names: Sequence[str]) -> None:
        """Chooses linear layers that compute in float32: the head, which always does, or any in a float32 model.

        Args:
            module_names: Paths as in sentence-transformers, such as `"0.model.classifier"`.

        Raises:
            InvalidArgumentError: Not a list of str.
            UnsupportedError: A layer of the encoder, in a model of 16 bits or of integers.

        Source: `sentence_transformers.CrossEncoder.set_keep_in_fp32_modules`, version 6.2.

        Example:
            >>> ranker_model.set_keep_in_fp32_modules(["0.model.classifier"])
            >>> ranker_model.keep_in_fp32_modules
            ['0.model.classifier']
        """
        if not isinstance(module_names, list | tuple) or not all(isinstance(name, str) for name in module_names):
            raise InvalidArgumentError(f"keep_in_fp32_modules is {module_names!r}, expected a list of paths of modules")
        need_float32(module_names, self.dtype)
        if module_names:
            self._say(f"keep_in_fp32_modules={list(module_names)} changes nothing: these layers compute in float32")
        self._in_float32 = tuple(dict.fromkeys(module_names))

    def _reload(self, device: str | None = None, dtype: str | None = None, *more: Any, **options: Any) -> None:
        need_float32(self._in_float32, dtype or self.dtype)
        super()._reload(device, dtype, *more, **options)

    def get_default_activation_fn(self) -> Activation:
        """The function in the model's configuration; else the sigmoid for one label, the identity for several.

        Searched are `activation_fn` of config_sentence_transformers.json, and `sentence_transformers.activation_fn` and
        `sbert_ce_default_activation_function` of config.json. A class outside torch is left out with a warning.

        Example:
            >>> ranker_model.get_default_activation_fn().__name__
            'sigmoid'
        """
        own, older = self.config.get("sentence_transformers"), "sbert_ce_default_activation_function"
        inner = own.get("activation_fn") if isinstance(own, Mapping) else None
        named = {
            "config_sentence_transformers.json: activation_fn": self._core.settings["activation_fn"],
            "config.json: sentence_transformers.activation_fn": inner,
            f"config.json: {older}": self.config.get(older),
        }
        for where, path in named.items():
            if isinstance(path, str) and path.startswith("torch."):
                return activation_of(path, where)
            if path is not None:
                logger.warning("%s: %s is %r, not a class of torch; it is left out", self.model_name, where, path)
        return sigmoid if self.num_labels == 1 else identity

    @property
    def num_labels(self) -> int:
        """Scores per pair."""
        return self._core.dimension

    @property
    @older_name("max_seq_length", DeprecationWarning)
    def max_length(self) -> int | float:
        """The older name of `max_seq_length`."""
        return self.max_seq_length

    @max_length.setter
    @older_name("max_seq_length", DeprecationWarning)
    def max_length(self, value: int) -> None:
        self.max_seq_length = value

    @property
    @older_name("activation_fn", DeprecationWarning)
    def default_activation_function(self) -> Activation:
        """The older name of `activation_fn`."""
        return self.activation_fn

    def _setting(self, key: str) -> Any:
        return class_of(self.activation_fn) if key == "activation_fn" else super()._setting(key)

    def is_singular_input(self, inputs: Any) -> bool:
        """Whether `inputs` is one pair, or one text, whose scores have no axis for pairs.

        Example:
            >>> ranker_model.is_singular_input(["a", "b"]), ranker_model.is_singular_input([["a", "b"]])
            (True, False)
        """
        if isinstance(inputs, np.ndarray):
            return inputs.size > 0 and inputs.ndim < 2
        if isinstance(inputs, list | tuple):
            return len(inputs) > 0 and not isinstance(inputs[0], list | tuple | np.ndarray)
        return isinstance(inputs, str)


def need_float32(module_names: Sequence[str], dtype: str) -> None:
    """Rejects layers that do not compute in float32 in a model of a type."""
    inner = [name for name in module_names if any(part.isdecimal() for part in name.split(".")[1:])]
    if inner and dtype != "float32":
        raise UnsupportedError(
            f"keep_in_fp32_modules lists {inner[0]!r}, a layer of the encoder, which computes in {dtype}; the head "
            "computes in float32 anyway, and dtype='float32' lets all layers do so"
        )


def without_labels(config_kwargs: Any, num_labels: int | None) -> tuple[Any, int | None]:
    """Arguments for the configuration without those that a head has, and the number of labels that the caller wants."""
    if not isinstance(config_kwargs, Mapping):
        return config_kwargs, None if num_labels is None else positive(num_labels, "num_labels")
    rest = {key: value for key, value in config_kwargs.items() if key not in ("num_labels", "classifier_dropout")}
    labels = config_kwargs.get("num_labels") if num_labels is None else num_labels
    return rest, None if labels is None else positive(labels, "num_labels")


def check_tokens(true_token: Any, false_token: Any) -> None:
    """Checks the names of the tokens whose logits are scores."""
    need_type(true_token, str | None, "true_token", "str")
    need_type(false_token, str | None, "false_token", "str")
    if true_token is None and false_token is not None:
        raise InvalidArgumentError("false_token is given without true_token, whose logit it is subtracted from")
