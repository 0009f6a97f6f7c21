"""`VulkanSentenceTransformer`: the class of upstream's name, with upstream's argument order and defaults."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from grilly.errors import InvalidArgumentError
from grilly.inputs import check_device
from grilly.sentence_transformer.aliases import arguments_of, as_request, texts_by_any_name
from grilly.sentence_transformer.encoding import Output, Texts, Wanted
from grilly.sentence_transformer.model import Model
from grilly.sentence_transformer.settings import SentenceArguments

__all__ = ["DEFAULT_NAME", "VulkanSentenceTransformer"]

DEFAULT_NAME = "all-MiniLM-L6-v2"


class VulkanSentenceTransformer(Model):
    """A sentence-embedding model on a Vulkan device, or on the CPU where there is none.

    Args:
        model_name: A folder in sentence-transformers' format, a name on the Hugging Face hub, or a bare name there of
            the organisation sentence-transformers; see `grilly.hub.resolve` for the search order.
        device: `"vulkan"` (the best GPU), `"vulkan:N"` (position N among the usable devices of `grilly.info()`),
            `"cpu"`, or, as None, `"auto"` (the best GPU, but the CPU where that is an integrated GPU which is slower);
            torch's `"cuda"`, `"cuda:N"` and `"mps"` mean the same devices.
        max_seq_length: Maximum tokens per text, special ones included; longer texts are truncated. Default: the model's
            own. More than the size of the model's position table is reduced to it with a warning.
        dtype: `"float32"`, `"float16"` or `"bfloat16"`, or NumPy's or torch's type; `"auto"` for the model's own. The
            narrow types round all weights, and on a GPU store weights and activations in half the memory, with
            sums, norms, softmax and pooling in float32; the CPU computes in float32 with the rounded weights.
            `"int8"` multiplies tokens and weights as 8-bit integers, the rest as float16, or as bfloat16 for a
            checkpoint of that type, or as float32 where numbers are the same everywhere. As in sentence-transformers,
            embeddings of float16 are float16 and those of the others float32.
        devices: As for `SentenceTransformer`, like `mixed`.
        prompts: Texts by name, prepended to inputs; override the model's own.
        default_prompt_name: The prompt used when a call names none; default: the model's own.
        truncate_dim: Dimensions kept of each embedding; default: the model's own, usually all.
        cache_folder: Root of the Hugging Face cache; default: `$SENTENCE_TRANSFORMERS_HOME`, else Hugging Face's own.
        revision: Branch, tag or commit on the hub; default `"main"`.
        local_files_only: Whether to skip the hub.
        token: For private models on the hub; not pickled with the model.
        model_kwargs: As for `SentenceTransformer`; a `dtype` there overrides the default of the argument; otherwise
            both must agree.
        processor_kwargs: `model_max_length`; also under its older name, `tokenizer_kwargs`.
        config_kwargs: As there.
        model_name_or_path: Another name of `model_name`.
        modules: As there, as are `trust_remote_code`, `use_auth_token`, `model_card_data` and `backend`.
        similarity_fn_name: `"cosine"`, `"dot"`, `"euclidean"` or `"manhattan"`; default: the model's own, else cosine.
        num_threads: CPU threads; default: the number the process may use, cgroup limits included.
        memory_limit: Maximum device memory for the weights of one task, in bytes; default: the limit of the device.
        float32_products: `"split"`, on a GPU's matrix cores with each number as the sum of two float16 numbers, or
            `"plain"`, a chain of float32 operations; default: the choice of `grilly.configure`, which is `"split"`.
            Both are the same on the CPU and without matrix cores for float16.
        numerics: `"run"`, the numbers of the device that runs, or `"everywhere"`, the same bits on every device, in
            float32 or int8 (`"everywhere-1"`: this version of them); default: the choice of `grilly.configure`, which
            is `"run"`. The guide "The same bits everywhere" tells what it costs.

    Attributes:
        model_name: The name as it was given.
        device: `"cpu"`, where results are, as a str that torch takes for a device; `requested_device` is the one
            asked for, and `backend` and `device_name` report where batches actually run.
        prompts: Texts by name; may be changed.
        default_prompt_name: The prompt used when a call names none; may be changed.
        truncate_dim: Dimensions kept of each embedding, or None for all; may be changed.
        dtype: The element type's name.
        numerics: What the numbers mean, `"run"` or `"everywhere-1"`.
        tokenizer: `tokenizer.encode(text)` gives token ids.
        config: The model's config.json.
        model_type: The architecture's name there.
        pooling_type: Pooling modes, joined by `+`, or `"none"`; `normalize`: whether the model itself normalises.
        st_model: None, like `transformer_model`; in upstream, another library's model.

    Raises:
        ModelNotFoundError: The name cannot be resolved (also an `OSError`).
        ModelFormatError: The folder cannot be used (also a `ValueError`); `WeightsError` for its tensors,
            `NotFiniteError` for one that holds NaN or infinity.
        UnsupportedError: An architecture, module or option that this version does not support (also a
            `NotImplementedError` and a `ValueError`).
        IndexOutOfRangeError: There is no device N (also an `IndexError`).
        DeviceUnavailableError: No usable device, and `GRILLY_STRICT=1` (also a `RuntimeError`).

    The object is a context manager, and `close()`, the end of a `with` block and `del` free its device memory. Threads
    may share it. It is pickled by name and settings; after a fork its use raises `UnusableError`.

    Source: the class of the same name in upstream's `grilly.utils.vulkan_sentence_transformer`; options and numbers of
    `sentence_transformers.SentenceTransformer`, version 6.2.

    Example:
        >>> from grilly import VulkanSentenceTransformer
        >>> with VulkanSentenceTransformer("all-MiniLM-L6-v2", device="cpu") as model:
        ...     model.encode(["A cat sits on the mat.", "A kitten rests on a rug."]).shape
        (2, 384)
    """

    __module__ = "grilly.sentence_transformers"  # by which other libraries know it
    _usual_dtype = "float32"
    st_model: None = None
    transformer_model: None = None

    def __init__(
        self,
        model_name: str | os.PathLike[str] = DEFAULT_NAME,
        device: Any = "vulkan",
        max_seq_length: int | None = None,
        *,
        dtype: Any = "float32",
        devices: Sequence[Any] | str | None = None,
        prompts: dict[str, str] | None = None,
        default_prompt_name: str | None = None,
        truncate_dim: int | None = None,
        cache_folder: str | os.PathLike[str] | None = None,
        revision: str | None = None,
        local_files_only: bool = False,
        token: bool | str | None = None,
        model_kwargs: dict[str, Any] | None = None,
        processor_kwargs: dict[str, Any] | None = None,
        tokenizer_kwargs: dict[str, Any] | None = None,
        config_kwargs: dict[str, Any] | None = None,
        similarity_fn_name: Any = None,
        model_name_or_path: str | os.PathLike[str] | None = None,
        modules: Any = None,
        trust_remote_code: bool = False,
        use_auth_token: bool | str | None = None,
        model_card_data: Any = None,
        backend: str = "torch",
        num_threads: int | None = None,
        memory_limit: int | None = None,
        float32_products: Literal["split", "plain"] | None = None,
        numerics: str | None = None,
        mixed: bool = False,
    ) -> None:
        if model_name_or_path is not None and model_name != DEFAULT_NAME:
            raise InvalidArgumentError("both model_name and model_name_or_path are given; they are one argument")
        if tokenizer_kwargs is not None and processor_kwargs is not None:
            raise InvalidArgumentError("both processor_kwargs and tokenizer_kwargs are given; they are one argument")
        # Modules are ignored beside a name, as there, but not beside the default one.
        name = None if modules is not None and model_name == DEFAULT_NAME else model_name
        given = SentenceArguments(
            name if model_name_or_path is None else model_name_or_path, modules=modules,
            device=check_device(device, devices), mixed=mixed, prompts=prompts, default_prompt_name=default_prompt_name,
            cache_folder=cache_folder, trust_remote_code=trust_remote_code, revision=revision,
            local_files_only=local_files_only, token=token, use_auth_token=use_auth_token, model_kwargs=model_kwargs,
            processor_kwargs=processor_kwargs if tokenizer_kwargs is None else tokenizer_kwargs,
            config_kwargs=config_kwargs, model_card_data=model_card_data, backend=backend,
            similarity_fn_name=similarity_fn_name, truncate_dim=truncate_dim, dtype=dtype,
            max_seq_length=max_seq_length, num_threads=num_threads, memory_limit=memory_limit,
            float32_products=float32_products, numerics=numerics,
        )  # fmt: skip
        self._load(given)

    @overload
    def encode(
        self,
        texts: Texts,
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
    def encode(self, *arguments: Any, **options: Any) -> Any: ...

    @as_request(Wanted)
    def encode(
        self,
        texts: Texts,
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
        device: Any = None,
        truncate_dim: int | None = None,
        pool: dict[str, Any] | None = None,
        chunk_size: int | None = None,
        **options: Any,
    ) -> Any:
        """Embeddings of `texts`: `pool(encoder(prompt + text))`, truncated to `truncate_dim`, then divided by the norm.

        Args:
            texts: A str, or a list, tuple or NumPy array of str; also under the names `sentences` and `inputs`.
            batch_size: Maximum texts per batch; a device's token budget may reduce it. No number depends on it.
            show_progress_bar: Whether to show a tqdm bar; None: if the logger `grilly` logs at level INFO.
            normalize_embeddings: Whether each row is divided by `max(norm, 1e-12)`.
            prompt_name: Name of a prompt in `prompts`.
            prompt: A prompt itself; takes precedence over `prompt_name`.
            output_value: `"sentence_embedding"`; `"token_embeddings"` for the encoder's last hidden state `(T, H)` of
                each text, as a list; None for a dict per text, with `input_ids`, `attention_mask`,
                `token_embeddings` and `sentence_embedding`, without padding and not normalised.
            precision: `"float32"`, `"int8"`, `"uint8"`, `"binary"` or `"ubinary"`, by `grilly.quantization`.
            convert_to_numpy: False returns a list of the rows.
            convert_to_tensor: True returns a torch tensor on the CPU, without torch a `grilly.numbers.Numbers`.
            device: The device for this call only, or a list of devices that share its batches, as of a pool.
            truncate_dim: Dimensions kept in this call; default: `self.truncate_dim`.
            pool: Returned by `start_multi_process_pool`; the rows are the same without.
            chunk_size: Texts encoded at a time of an iterator and with `out`, by default 8,192; accepted with a pool.
                No number depends on it.
            **options: `task`, which chooses the route of a Router or the adapter of a model that has one for each task;
                without effect in other models. `out`, a .npy file to which the rows are written part by part, so that
                texts of an iterator may be any number, and rows larger than memory; `resume=True` adds to the rows that
                the file has: as many texts are skipped, the last of which must have the same row. `windows`, the tokens
                that two windows have in common of a text which has more than `max_seq_length`: it is pooled over all
                its tokens, and not truncated.

        Returns:
            float32 `(N, D)`, or `(D,)` for a str, float16 for a model of that dtype; `np.array([])` for an empty list.
            Of an iterator, such as a generator, an iterator of the results of `chunk_size` texts each; with `out`, the
            rows of the file as a memory map.

        Raises:
            InvalidTypeError: An item is not a str (also a `TypeError`).
            InvalidArgumentError: An invalid value, an unknown keyword or task, a lone surrogate (also a `ValueError`).
            NotFiniteError: An embedding contains NaN or infinity, or a row of weights that it needs.
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

    @arguments_of(encode)
    def encode_query(self, texts: Texts, **options: Any) -> Any:
        """`encode` with the task `query` and the prompt of that name, unless one is given.

        Every model has that prompt; it is empty unless the model or the constructor defines it, and replaces the
        default prompt even when empty. Arguments and results are those of `encode`.

        Source: `sentence_transformers.SentenceTransformer.encode_query`, version 6.2.

        Example:
            >>> model.encode_query("Where is the cat?").shape
            (384,)
        """
        return self._encode(texts, Wanted(**options, task="query"))

    @arguments_of(encode)
    def encode_document(self, texts: Texts, **options: Any) -> Any:
        """`encode` with the task `document` and its prompt, unless one is given.

        The prompt is the first existing one of `document`, `passage` and `corpus`. Arguments and results are those of
        `encode`.

        Source: `sentence_transformers.SentenceTransformer.encode_document`, version 6.2.

        Example:
            >>> model.encode_document(["The cat sits on the mat."]).shape
            (1, 384)
        """
        return self._encode(texts, Wanted(**options, task="document"))

    @as_request(Wanted)
    def encode_multi_process(  # type: ignore[empty-body]  # as_request makes the call
        self,
        sentences: Texts,
        pool: dict[str, Any],
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int = 32,
        chunk_size: int | None = None,
        show_progress_bar: bool | None = None,
        precision: str | None = "float32",
        normalize_embeddings: bool = True,
        truncate_dim: int | None = None,
    ) -> npt.NDArray[np.generic]:
        """`encode(sentences, pool=pool)`, with the same rows; the argument order is sentence-transformers'.

        Example:
            >>> pool = model.start_multi_process_pool(["cpu", "cpu"])
            >>> model.encode_multi_process(["Hello", "World"], pool).shape
            (2, 384)
        """

    @texts_by_any_name
    def __call__(self, texts: Texts, *arguments: Any, **options: Any) -> Any:
        """The same as `encode`."""
        return self.encode(texts, *arguments, **options)
