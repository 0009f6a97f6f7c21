"""`VulkanSentenceTransformer`: sentence-transformers' interface over the compiled core."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from grilly import _core, hub
from grilly.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from grilly.inputs import as_list, check_device, choose_dtype, merge_prompts, positive
from grilly.outputs import normalize_rows, stored, to_tensor, token_features
from grilly.progress import progress
from grilly.quantization import PRECISIONS, quantize_embeddings
from grilly.similarity import SIMILARITIES
from grilly.tokenizer import Tokenizer

__all__ = ["VulkanSentenceTransformer", "get_vulkan_sentence_transformer"]

logger = logging.getLogger("grilly")

Texts = str | Sequence[str] | npt.NDArray[Any]
Output = Literal["sentence_embedding", "token_embeddings"]
# In place of an argument that was left out, where None means something.
MISSING: Any = object()
OUTPUTS = (None, "sentence_embedding", "token_embeddings")
# What a pickled model keeps besides its arguments.
SETTINGS = (
    "model_name",
    "prompts",
    "default_prompt_name",
    "truncate_dim",
    "_similarity_fn_name",
    "_include_prompt",
)
DOCUMENT_PROMPTS = ("document", "passage", "corpus")


class VulkanSentenceTransformer:
    """A sentence-embedding model on a Vulkan device, or on the CPU where there is none.

    Args:
        model_name: A folder in sentence-transformers' format, a name on the Hugging Face hub, or a bare name there of
            the organisation sentence-transformers; see `grilly.hub.resolve` for the places that are looked at.
        device: `"vulkan"` (the best GPU), `"vulkan:N"` (position N among the usable devices of `grilly.info()`) or
            `"cpu"`.
        max_seq_length: Most tokens of a text, special ones included; longer texts are truncated. Default: the model's
            own. More than the model's position table has is lowered to it with a warning.
        dtype: `"float32"`, `"float16"` or `"bfloat16"`, or NumPy's or torch's type. The narrow types round all weights,
            and on a GPU hold weights and the encoder's numbers in half the memory, with sums, norms, softmax and
            pooling in float32; the CPU computes in float32 with the rounded weights. As in sentence-transformers,
            embeddings of float16 are float16 and those of the other two float32.
        devices: A list in place of `device`; one entry.
        prompts: Texts by name, to be put before inputs; added to the model's own and taken before them.
        default_prompt_name: The prompt used when a call names none; default: the model's own.
        truncate_dim: Dimensions kept of each embedding; default: the model's own, usually all.
        cache_folder: Root of the Hugging Face cache; default: `$SENTENCE_TRANSFORMERS_HOME`, else Hugging Face's own.
        revision: Branch, tag or commit on the hub; default `"main"`.
        local_files_only: Whether to leave the hub out.
        token: For private models on the hub; not kept when the model is pickled.
        model_kwargs: As in sentence-transformers; only `dtype` (or `torch_dtype`), which goes before the argument.
        similarity_fn_name: `"cosine"`, `"dot"`, `"euclidean"` or `"manhattan"`; default: the model's own, else cosine.
        num_threads: CPU threads; default: what the process may use, cgroup limits included.
        memory_limit: Most bytes of device memory for this model; default: no limit but the device's.

    Attributes:
        model_name: The name as it was given.
        device: The device as it was asked for; `backend` and `device_name` say where batches really run.
        prompts: Texts by name; may be changed.
        default_prompt_name: The prompt used when a call names none; may be changed.
        truncate_dim: Dimensions kept of each embedding, or None for all; may be changed.
        dtype: The element type's name.
        tokenizer: `tokenizer.encode(text)` gives token ids.
        config: The model's config.json.
        model_type: The architecture's name there.
        pooling_type: Pooling modes, joined by `+`; `"none"` for a model without pooling.
        normalize: Whether the model itself normalises its embeddings.
        st_model: None; upstream kept a sentence-transformers model here.
        transformer_model: None; upstream kept a transformers model here.

    Raises:
        ModelNotFoundError: The name leads nowhere (also an `OSError`).
        ModelFormatError: The folder cannot be used as it is (also a `ValueError`); `WeightsError` for its tensors.
        UnsupportedError: An architecture, module or option that this version does not do (also a
            `NotImplementedError` and a `ValueError`).
        IndexOutOfRangeError: There is no device N (also an `IndexError`).
        DeviceUnavailableError: No usable device, and `GRILLY_STRICT=1` (also a `RuntimeError`).

    The object is a context manager, and `close()`, the end of a `with` block and `del` free its device memory. Two
    threads may use it at once. It pickles by its name and arguments, so that a process started by `spawn` loads it
    again; after a fork its use raises `UnusableError`.

    Source: the class of the same name in upstream's `grilly.utils.vulkan_sentence_transformer`; options and numbers of
    `sentence_transformers.SentenceTransformer`, version 6.2.

    Example:
        >>> from grilly import VulkanSentenceTransformer
        >>> with VulkanSentenceTransformer("all-MiniLM-L6-v2", device="cpu") as model:
        ...     model.encode(["A cat sits on the mat.", "A kitten rests on a rug."]).shape
        (2, 384)
    """

    st_model: None = None
    transformer_model: None = None

    def __init__(
        self,
        model_name: str | os.PathLike[str] = "all-MiniLM-L6-v2",
        device: str | None = "vulkan",
        max_seq_length: int | None = None,
        *,
        dtype: Any = "float32",
        devices: Sequence[str] | None = None,
        prompts: dict[str, str] | None = None,
        default_prompt_name: str | None = None,
        truncate_dim: int | None = None,
        cache_folder: str | os.PathLike[str] | None = None,
        revision: str | None = None,
        local_files_only: bool = False,
        token: bool | str | None = None,
        model_kwargs: dict[str, Any] | None = None,
        similarity_fn_name: str | None = None,
        num_threads: int | None = None,
        memory_limit: int | None = None,
    ) -> None:
        self.dtype = choose_dtype(dtype, model_kwargs)
        self.device = check_device(device, devices)
        self.truncate_dim = None if truncate_dim is None else positive(truncate_dim, "truncate_dim")
        self._similarity_fn_name: str | None = None
        self.similarity_fn_name = similarity_fn_name
        merge_prompts(prompts, ())  # a wrong type is told before the model is looked for
        limit = None if max_seq_length is None else positive(max_seq_length, "max_seq_length")
        threads = None if num_threads is None else positive(num_threads, "num_threads")
        memory = None if memory_limit is None else positive(memory_limit, "memory_limit")

        found = hub.resolve(
            model_name, cache_folder=cache_folder, revision=revision, local_files_only=local_files_only, token=token
        )
        self._core = _core.EmbeddingModel.load(found.folder, self.device, self.dtype, limit, threads, memory)
        self.model_name = os.fspath(model_name)
        # What a copy in another process needs; a folder's path must not depend on the working directory.
        self._arguments: dict[str, Any] = {
            "model_name": os.path.abspath(found.folder) if found.found == "path" else self.model_name,
            "device": self.device,
            "dtype": self.dtype,
            "cache_folder": cache_folder,
            "revision": revision,
            "local_files_only": local_files_only,
            "num_threads": num_threads,
            "memory_limit": memory_limit,
        }
        self._include_prompt: bool | None = None
        self.prompts = merge_prompts(prompts, self._core.prompts)
        self.default_prompt_name = default_prompt_name or self._core.default_prompt_name
        if self.default_prompt_name is not None and self.default_prompt_name not in self.prompts:
            raise InvalidArgumentError(
                f"default_prompt_name is {self.default_prompt_name!r}, expected one of {list(self.prompts)}"
            )
        if self.truncate_dim is None:
            self.truncate_dim = self._core.truncate_dim
        if self._similarity_fn_name is None and self._core.similarity_fn_name in SIMILARITIES:
            self._similarity_fn_name = self._core.similarity_fn_name
        self.config: dict[str, Any] = json.loads(self._core.config_json)
        self.model_type = self._core.model_type
        self.tokenizer = Tokenizer(self._core)
        modules = self._core.modules
        self.pooling_type = next((settings for name, settings in modules if name == "Pooling"), "none")
        self.normalize = any(name == "Normalize" for name, _ in modules)

    # ------------------------------------------------------------------------------------------------------- encoding

    @overload
    def encode(
        self,
        texts: Texts = ...,
        batch_size: int = ...,
        show_progress_bar: bool | None = ...,
        normalize_embeddings: bool = ...,
        *,
        prompt_name: str | None = ...,
        prompt: str | None = ...,
        precision: str | None = ...,
        truncate_dim: int | None = ...,
    ) -> npt.NDArray[Any]: ...

    @overload
    def encode(
        self,
        texts: Texts = ...,
        batch_size: int = ...,
        show_progress_bar: bool | None = ...,
        normalize_embeddings: bool = ...,
        **options: Any,
    ) -> Any: ...

    def encode(
        self,
        texts: Texts = MISSING,
        batch_size: int = 32,
        show_progress_bar: bool | None = False,
        normalize_embeddings: bool = True,
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        output_value: Output | None = "sentence_embedding",
        precision: str | None = "float32",
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        device: str | None = None,
        truncate_dim: int | None = None,
        pool: None = None,
        chunk_size: None = None,
        task: str | None = None,
        **aliases: Any,
    ) -> Any:
        """Embeddings of `texts`: `pool(encoder(prompt + text))`, cut to `truncate_dim`, then divided by the norm.

        Args:
            texts: A str, or a list, tuple or NumPy array of str; also under the names `sentences` and `inputs`.
            batch_size: Most texts of one batch; a device's token budget may make it smaller. No number depends on it.
            show_progress_bar: Whether to show a tqdm bar; None: if the logger `grilly` logs at level INFO.
            normalize_embeddings: Whether each row is divided by `max(norm, 1e-12)`.
            prompt_name: Name of a prompt in `prompts`.
            prompt: A prompt itself; taken before `prompt_name`.
            output_value: `"sentence_embedding"`; `"token_embeddings"` for the encoder's last hidden state `(T, H)` of
                each text, as a list; None for a dict of each text, with `input_ids`, `attention_mask`,
                `token_embeddings` and `sentence_embedding`, without padding and not normalised.
            precision: `"float32"`, `"int8"`, `"uint8"`, `"binary"` or `"ubinary"`, by `grilly.quantization`.
            convert_to_numpy: False gives a list of the rows.
            convert_to_tensor: True gives a torch tensor on the CPU, where torch is installed.
            device: None, or the model's own device.
            truncate_dim: Dimensions kept in this call; default: `self.truncate_dim`.
            pool: None; this package needs no pool of processes.
            chunk_size: None, likewise.
            task: Accepted as in sentence-transformers; it changes nothing in a model without a router.

        Returns:
            float32 `(N, D)`, or `(D,)` for a str, float16 for a model of that dtype; `np.array([])` for an empty list.

        Raises:
            InvalidTypeError: An item is not a str (also a `TypeError`).
            InvalidArgumentError: An impossible value, an unknown keyword, a lone surrogate (also a `ValueError`).
            NotFiniteError: An embedding holds NaN or infinity.
            UnusableError: After `close()` or a fork.
            KeyboardInterrupt: At Ctrl-C, between two batches.

        Source: `sentence_transformers.SentenceTransformer.encode`, version 6.2; the order of the first four arguments
        and `normalize_embeddings=True` are upstream's.

        Example:
            >>> model.encode(["Hello", "World"], batch_size=1).shape
            (2, 384)
            >>> float(model.encode("Hello") @ model.encode("Hello!")) > 0.9
            True
        """
        texts = self._take_alias(texts, aliases)
        if output_value not in OUTPUTS:
            raise InvalidArgumentError(
                f"output_value is {output_value!r}, expected 'sentence_embedding', 'token_embeddings' or None"
            )
        if precision is not None and precision not in PRECISIONS:
            raise InvalidArgumentError(f"precision is {precision!r}, expected one of {', '.join(PRECISIONS)}")
        if device not in (None, self.device):
            raise InvalidArgumentError(f"device is {device!r}, expected None or {self.device!r}; load another model")
        if pool is not None or chunk_size is not None:
            raise UnsupportedError("pool and chunk_size: one process uses the whole device; expected None")
        if not isinstance(task, str | None):
            raise InvalidTypeError(f"task is of type {type(task).__name__}, expected str")
        size = positive(batch_size, "batch_size")
        kept = self.truncate_dim if truncate_dim is None else positive(truncate_dim, "truncate_dim")
        prefix = self._prompt(prompt, prompt_name)
        items, single = as_list(texts)
        if not items:
            self._core.encode([], "", size, False)  # a closed model refuses an empty list too
            if convert_to_tensor and output_value == "sentence_embedding":
                return to_tensor(np.array([]))
            return np.array([]) if convert_to_numpy and output_value == "sentence_embedding" else []

        with_tokens = output_value != "sentence_embedding"
        with progress(len(items), show_progress_bar) as advance:
            rows, tokens, ids = self._core.encode(items, prefix, size, with_tokens, advance)
        rows = rows if kept is None or kept >= rows.shape[1] else np.ascontiguousarray(rows[:, :kept])

        result: Any
        whole = precision in (None, "float32")
        if output_value is None:
            if not whole:
                raise InvalidArgumentError(f"precision is {precision!r}, and output_value=None gives {self.dtype} only")
            result = token_features(stored(rows, self.dtype), [stored(each, self.dtype) for each in tokens], ids)
        elif output_value == "token_embeddings":
            tokens = [stored(each, self.dtype) for each in tokens]
            result = tokens if whole else quantize_embeddings(tokens, precision or "float32")
        else:
            result = stored(normalize_rows(rows) if normalize_embeddings else rows, self.dtype)
            if not whole:
                result = quantize_embeddings(result, precision or "float32")
            if convert_to_tensor:
                result = to_tensor(result, self.dtype if whole else None)
            elif not convert_to_numpy:
                result = list(result)
        return result[0] if single else result

    def encode_query(self, texts: Texts = MISSING, *arguments: Any, **options: Any) -> Any:
        """`encode` with the prompt called `query`, unless one is given.

        Every model has that prompt; it is empty unless the model or the constructor says otherwise, and then takes the
        place of the default prompt.

        Args:
            texts: As in `encode`.
            *arguments: `batch_size`, `show_progress_bar` and `normalize_embeddings`, as in `encode`.
            **options: As in `encode`.

        Source: `sentence_transformers.SentenceTransformer.encode_query`, version 6.2.

        Example:
            >>> model.encode_query("Where is the cat?").shape
            (384,)
        """
        return self.encode(texts, *arguments, **self._with_prompt(options, ("query",), "query"))

    def encode_document(self, texts: Texts = MISSING, *arguments: Any, **options: Any) -> Any:
        """`encode` with the first there is of the prompts `document`, `passage` and `corpus`, unless one is given.

        Args:
            texts: As in `encode`.
            *arguments: `batch_size`, `show_progress_bar` and `normalize_embeddings`, as in `encode`.
            **options: As in `encode`.

        Source: `sentence_transformers.SentenceTransformer.encode_document`, version 6.2.

        Example:
            >>> model.encode_document(["The cat sits on the mat."]).shape
            (1, 384)
        """
        return self.encode(texts, *arguments, **self._with_prompt(options, DOCUMENT_PROMPTS, "document"))

    def __call__(self, texts: Texts = MISSING, *arguments: Any, **options: Any) -> Any:
        """The same as `encode`."""
        return self.encode(texts, *arguments, **options)

    def _with_prompt(self, options: dict[str, Any], names: tuple[str, ...], task: str) -> dict[str, Any]:
        """The options with the first of the prompts `names` that there is, and with the task."""
        if options.get("prompt") is None and options.get("prompt_name") is None:
            options["prompt_name"] = next((name for name in names if name in self.prompts), None)
        options.setdefault("task", task)
        return options

    def _take_alias(self, texts: Any, aliases: dict[str, Any]) -> Any:
        """The texts under whichever name they were given."""
        for name in ("sentences", "inputs"):
            if name in aliases:
                if texts is not MISSING:
                    raise TypeError(f"encode() got the texts twice, the second time as {name!r}")
                texts = aliases.pop(name)
        if aliases:
            raise InvalidArgumentError(f"encode() does not know the keyword {next(iter(aliases))!r}")
        if texts is MISSING:
            raise TypeError("encode() missing 1 required positional argument: 'texts'")
        return texts

    def _prompt(self, prompt: str | None, prompt_name: str | None) -> str:
        """The text to put before every input."""
        if prompt is not None:
            if not isinstance(prompt, str):
                raise InvalidTypeError(f"prompt is of type {type(prompt).__name__}, expected str")
            if prompt_name is not None:
                logger.warning("both prompt and prompt_name are given; prompt_name is ignored")
            return prompt
        if prompt_name is not None and prompt_name not in self.prompts:
            raise InvalidArgumentError(f"prompt_name is {prompt_name!r}, expected one of {list(self.prompts)}")
        name = self.default_prompt_name if prompt_name is None else prompt_name
        return "" if name is None else self.prompts.get(name, "")

    # ----------------------------------------------------------------------------------------------------- similarity

    @property
    def similarity_fn_name(self) -> str:
        """`"cosine"`, `"dot"`, `"euclidean"` or `"manhattan"`: what `similarity` computes; may be set."""
        return self._similarity_fn_name or "cosine"

    @similarity_fn_name.setter
    def similarity_fn_name(self, value: str | None) -> None:
        name = getattr(value, "value", value)
        if name is not None and name not in SIMILARITIES:
            raise InvalidArgumentError(f"similarity_fn_name is {value!r}, expected one of {', '.join(SIMILARITIES)}")
        self._similarity_fn_name = name

    def similarity(self, embeddings1: npt.ArrayLike, embeddings2: npt.ArrayLike) -> npt.NDArray[np.floating[Any]]:
        """How alike every row of the first is to every row of the second: `(N, D)`, `(M, D)` give `(N, M)`.

        The functions are those of `grilly.similarity`; distances are negative, so that more is always more alike. The
        result is a NumPy array, where sentence-transformers gives a tensor.

        Example:
            >>> a, b = model.encode(["A cat.", "A kitten."]), model.encode(["A cat."])
            >>> scores = model.similarity(a, b)
            >>> scores.shape, bool(scores[0, 0] > scores[1, 0])
            ((2, 1), True)
        """
        return SIMILARITIES[self.similarity_fn_name][0](embeddings1, embeddings2)

    def similarity_pairwise(
        self, embeddings1: npt.ArrayLike, embeddings2: npt.ArrayLike
    ) -> npt.NDArray[np.floating[Any]]:
        """How alike row i of the first is to row i of the second: `(N, D)` twice gives `(N,)`.

        Example:
            >>> a = model.encode(["A cat.", "A kitten."])
            >>> model.similarity_pairwise(a, a).round(3).tolist()
            [1.0, 1.0]
        """
        return SIMILARITIES[self.similarity_fn_name][1](embeddings1, embeddings2)

    # ------------------------------------------------------------------------------------------------------- settings

    def get_embedding_dimension(self) -> int:
        """Columns of an embedding, `truncate_dim` considered.

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

    @property
    def max_seq_length(self) -> int:
        """Most tokens of a text, special ones included; may be set, up to the model's position table."""
        return self._core.max_seq_length

    @max_seq_length.setter
    def max_seq_length(self, value: int) -> None:
        self._core.set_max_seq_length(positive(value, "max_seq_length"))

    def get_max_seq_length(self) -> int:
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
        self._core.set_pooling_include_prompt(bool(include_prompt))
        self._include_prompt = bool(include_prompt)

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

    @property
    def backend(self) -> str:
        """`"vulkan"` or `"cpu"`: where batches run now; it changes when a failed device has made the CPU take over."""
        return self._core.backend

    @property
    def device_name(self) -> str:
        """Name of the device that batches run on now."""
        return self._core.device[0]

    @property
    def device_reason(self) -> str:
        """Why batches run on that device, in one sentence."""
        return self._core.device[1]

    def __len__(self) -> int:
        """Number of modules."""
        return len(self._core.modules)

    @property
    def plan(self) -> str:
        """What a batch runs, as text: the steps in order, their buffers, and each fusion or why it was declined.

        Example:
            >>> "attention: fused into layer 0 attention" in model.plan
            True
        """
        return self._core.plan_text

    def __repr__(self) -> str:
        try:
            modules = self._core.modules
        except RuntimeError:  # after a fork
            return f"{type(self).__name__}({self.model_name!r}, unusable)"
        lines = [f"  ({number}): {name}({settings})" for number, (name, settings) in enumerate(modules)]
        return "\n".join([f"{type(self).__name__}(", *lines, ")"])

    # ----------------------------------------------------------------------------------------------------------- life

    def close(self) -> None:
        """Frees the device memory; encoding afterwards raises `UnusableError`. Closing twice is allowed.

        Example:
            >>> from grilly import VulkanSentenceTransformer
            >>> other = VulkanSentenceTransformer("all-MiniLM-L6-v2", device="cpu")
            >>> other.close()
        """
        self._core.close()

    def __enter__(self) -> VulkanSentenceTransformer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """By name and arguments: the copy loads the model again."""
        settings = {name: getattr(self, name) for name in SETTINGS}
        return restore, (type(self), self._arguments | {"max_seq_length": self.max_seq_length}, settings)


def restore(
    kind: type[VulkanSentenceTransformer], arguments: dict[str, Any], settings: dict[str, Any]
) -> VulkanSentenceTransformer:
    """A pickled model, loaded again."""
    model = kind(**arguments)
    for name, value in settings.items():
        setattr(model, name, value)
    if model._include_prompt is not None:
        model.set_pooling_include_prompt(model._include_prompt)
    return model


def get_vulkan_sentence_transformer(
    model_name: str | os.PathLike[str] = "all-MiniLM-L6-v2", **arguments: Any
) -> VulkanSentenceTransformer:
    """The same as `VulkanSentenceTransformer(model_name, **arguments)`.

    Example:
        >>> from grilly import get_vulkan_sentence_transformer
        >>> get_vulkan_sentence_transformer("all-MiniLM-L6-v2", device="cpu").model_type
        'bert'
    """
    return VulkanSentenceTransformer(model_name, **arguments)
