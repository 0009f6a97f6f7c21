"""Settings of a model: prompts, limits, similarity, and read-only properties."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from grilly.errors import GrillyError, InvalidArgumentError
from grilly.inputs import merge_prompts, positive
from grilly.sentence_transformer.arguments import Arguments
from grilly.sentence_transformer.loaded import Loaded
from grilly.similarity import SIMILARITIES

__all__ = ["Settings"]

# The core's limit for a table of token vectors, which has none.
UNLIMITED = 2**31 - 1


class Settings(Loaded):
    """A loaded model with its settings."""

    SUPPORTED_SIMILARITY_FN_NAMES: ClassVar[tuple[str, ...]] = tuple(SIMILARITIES)
    default_huggingface_organization: ClassVar[str] = "sentence-transformers"

    def _load(self, arguments: Arguments) -> None:
        truncate_dim = None if arguments.truncate_dim is None else positive(arguments.truncate_dim, "truncate_dim")
        self._similarity_fn_name: str | None = None
        self.similarity_fn_name = arguments.similarity_fn_name
        merge_prompts(arguments.prompts, ())  # report a wrong type before searching for the model
        for name in ("num_threads", "memory_limit"):
            if getattr(arguments, name) is not None:
                positive(getattr(arguments, name), name)
        super()._load(arguments)
        prompts, prompt_name, similarity, dimensions = self._core.configured
        self.prompts = merge_prompts(arguments.prompts, prompts)
        self.default_prompt_name = arguments.default_prompt_name or prompt_name
        if self.default_prompt_name is not None and self.default_prompt_name not in self.prompts:
            raise InvalidArgumentError(
                f"default_prompt_name is {self.default_prompt_name!r}, expected one of {list(self.prompts)}"
            )
        self.truncate_dim = dimensions if truncate_dim is None else truncate_dim
        if self._similarity_fn_name is None and similarity in SIMILARITIES:
            self._similarity_fn_name = similarity
        self.config: dict[str, Any] = json.loads(self._core.config_json)
        self.model_type = self._core.model_type
        modules = self._core.modules
        self.pooling_type = next((settings for name, settings in modules if name == "Pooling"), "none")
        self.normalize = any(name == "Normalize" for name, _ in modules)

    # ----------------------------------------------------------------------------------------------------- similarity

    @property
    def similarity_fn_name(self) -> str:
        """`"cosine"`, `"dot"`, `"euclidean"` or `"manhattan"`: the function of `similarity`; may be set."""
        return self._similarity_fn_name or "cosine"

    @similarity_fn_name.setter
    def similarity_fn_name(self, value: Any) -> None:
        name = getattr(value, "value", value)
        if name is not None and name not in SIMILARITIES:
            raise InvalidArgumentError(f"similarity_fn_name is {value!r}, expected one of {', '.join(SIMILARITIES)}")
        self._similarity_fn_name = name

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Similarity of every row of the first to every row of the second: `(N, D)`, `(M, D)` give `(N, M)`.

        The functions are those of `grilly.similarity`; distances are negated, so that larger always means more similar.
        The result is a torch tensor if one of the two is, otherwise a NumPy array, where sentence-transformers returns
        a tensor.

        Example:
            >>> a, b = model.encode(["A cat.", "A kitten."]), model.encode(["A cat."])
            >>> scores = model.similarity(a, b)
            >>> scores.shape, bool(scores[0, 0] > scores[1, 0])
            ((2, 1), True)
        """
        return SIMILARITIES[self.similarity_fn_name][0](embeddings1, embeddings2)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Similarity of row i of the first to row i of the second: `(N, D)` twice gives `(N,)`, as `similarity` does.

        Example:
            >>> a = model.encode(["A cat.", "A kitten."])
            >>> model.similarity_pairwise(a, a).round(3).tolist()
            [1.0, 1.0]
        """
        return SIMILARITIES[self.similarity_fn_name][1](embeddings1, embeddings2)

    # ---------------------------------------------------------------------------------------------------- dimensions

    def get_embedding_dimension(self) -> int:
        """Columns of an embedding, after `truncate_dim`.

        Example:
            >>> model.get_embedding_dimension()
            384
        """
        return min(self._core.dimension, self.truncate_dim or self._core.dimension)

    def get_sentence_embedding_dimension(self) -> int:
        """The same as `get_embedding_dimension`.

        Example:
            >>> model.get_sentence_embedding_dimension()
            384
        """
        return self.get_embedding_dimension()

    @contextmanager
    def truncate_embeddings(self, truncate_dim: int | None) -> Iterator[None]:
        """Inside the `with` block, embeddings have `truncate_dim` dimensions; None for all.

        Example:
            >>> with model.truncate_embeddings(64):
            ...     model.encode("A cat.").shape
            (64,)
        """
        before = self.truncate_dim
        self.truncate_dim = None if truncate_dim is None else positive(truncate_dim, "truncate_dim")
        try:
            yield
        finally:
            self.truncate_dim = before

    @contextmanager
    def truncate_sentence_embeddings(self, truncate_dim: int | None) -> Iterator[None]:
        """The older name of `truncate_embeddings`.

        Example:
            >>> with model.truncate_sentence_embeddings(64):
            ...     model.encode("A cat.").shape
            (64,)
        """
        with self.truncate_embeddings(truncate_dim):
            yield

    # --------------------------------------------------------------------------------------------------------- tokens

    @property
    def max_seq_length(self) -> int | float:
        """Maximum tokens per text, special ones included; may be set, up to the model's position table.

        `math.inf` for a StaticEmbedding without a limit of its own. With a Router it is the largest of the routes' and
        sets all.
        """
        limit = self._core.max_seq_length
        return math.inf if limit == UNLIMITED else limit

    @max_seq_length.setter
    def max_seq_length(self, value: int | float) -> None:
        limit = UNLIMITED if value == math.inf else positive(value, "max_seq_length")
        with self._swap:
            for core in (self._core, *self._elsewhere.values()):
                core.set_max_seq_length(limit)
            self._limit = limit

    def get_max_seq_length(self) -> int | float:
        """The same as `max_seq_length`.

        Example:
            >>> model.get_max_seq_length()
            256
        """
        return self.max_seq_length

    def set_pooling_include_prompt(self, include_prompt: bool) -> None:
        """Sets whether the prompt's own tokens are pooled with the text's; INSTRUCTOR models want False.

        Example:
            >>> model.set_pooling_include_prompt(True)
        """
        with self._swap:
            for core in (self._core, *self._elsewhere.values()):
                core.set_pooling_include_prompt(bool(include_prompt))
            self._include_prompt = bool(include_prompt)

    def preprocess(self, inputs: Any, prompt: str | None = None, **options: Any) -> dict[str, Any]:
        """Token ids of texts as rows of equal length, padded as the model's tokenizer does.

        Args:
            inputs: A list of str.
            prompt: Prepended to every text.
            **options: `task`, which chooses among the tokenizers of a Router's routes, and others without effect.

        Returns:
            `input_ids` and `attention_mask` `(N, T)`, and `token_type_ids` if the tokenizer produces segments: torch
            tensors where torch is installed, else int64 arrays; with them `modality`, and `prompt_length` for a prompt.
            An empty dict for no texts.

        Source: `sentence_transformers.SentenceTransformer.preprocess`, version 6.2.

        Example:
            >>> model.preprocess(["Hello", ""])["attention_mask"].tolist()
            [[1, 1, 1], [1, 1, 0]]
        """
        return self.tokenizer.preprocess(inputs, prompt, options)

    def tokenize(self, texts: Any, **options: Any) -> dict[str, Any]:
        """The older name of `preprocess`.

        Example:
            >>> model.tokenize(["Hello", ""])["input_ids"].shape[1]
            3
        """
        return self.preprocess(texts, **options)

    # ----------------------------------------------------------------------------------------------- what the model is

    @property
    def modalities(self) -> list[str]:
        """Supported modalities: `["text"]`."""
        return ["text"]

    def supports(self, modality: Any) -> bool:
        """Whether the model supports `modality`; only `"text"` is supported.

        Example:
            >>> model.supports("text"), model.supports("image")
            (True, False)
        """
        return bool(modality == "text")

    def is_singular_input(self, inputs: Any) -> bool:
        """Whether `inputs` is one text, alone or in a dict from its task's name, whose embedding has one axis.

        Example:
            >>> model.is_singular_input("A cat."), model.is_singular_input(["A cat."])
            (True, False)
        """
        return isinstance(inputs, str | Mapping)

    def get_model_kwargs(self) -> list[str]:
        """Keywords that this model's modules take in `encode`: `task` for adapters, and `modality` too for a Router.

        Example:
            >>> model.get_model_kwargs()
            []
        """
        return list(self._core.call_options)

    @property
    def backend(self) -> str:
        """`"vulkan"` or `"cpu"`: where batches run; it changes when a device fails and the CPU takes over."""
        return self._core.backend

    def get_backend(self) -> str:
        """The same as `backend`.

        Example:
            >>> model.get_backend() == model.backend
            True
        """
        return self.backend

    @property
    def device_name(self) -> str:
        """Name of the device that batches run on."""
        return self._core.device[0]

    @property
    def device_reason(self) -> str:
        """Why batches run on that device, in one sentence."""
        return self._core.device[1]

    @property
    def plan(self) -> str:
        """The plan of a batch as text: the steps in order, their buffers, and each fusion or why it was declined.

        Example:
            >>> "attention: fused into layer 0 attention" in model.plan
            True
        """
        return self._core.plan_text

    @property
    def decoder_plan(self) -> str:
        """The plan of `decode_states` as text, of a model with a decoder; `UnsupportedError` for another."""
        return self._core.decoder_plan_text

    def __len__(self) -> int:
        """Number of modules."""
        return len(self._core.modules)

    def __repr__(self) -> str:
        try:
            modules = self._core.modules
        except GrillyError:  # after a fork, or restored where it cannot be loaded
            return f"{type(self).__name__}({self.model_name!r}, unusable)"
        lines = [f"  ({number}): {name}({settings})" for number, (name, settings) in enumerate(modules)]
        return "\n".join([f"{type(self).__name__}(", *lines, ")"])
