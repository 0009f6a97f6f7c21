"""`SentenceTransformer`: sentence-transformers' class, with its arguments in its order and its defaults."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from grilly.sentence_transformer.aliases import arguments_of, as_request, older_keywords, older_name
from grilly.sentence_transformer.arguments import constructor
from grilly.sentence_transformer.encoding import Output, Texts, Wanted
from grilly.sentence_transformer.model import Model
from grilly.sentence_transformer.settings import SentenceArguments

__all__ = ["SentenceTransformer"]


@dataclass(frozen=True, eq=False, repr=False)
class PlainArguments(SentenceArguments):
    """The constructor arguments of `SentenceTransformer`."""

    _: KW_ONLY
    backend: Literal["torch"] = "torch"


class SentenceTransformer(Model):
    """A sentence-embedding model with the interface of `sentence_transformers.SentenceTransformer`, without torch.

    Code written for that class runs after changing its import line. The guide "From sentence-transformers" lists the
    differences. Results that are tensors there are NumPy arrays here unless `convert_to_tensor=True`, and unsupported
    names raise `UnsupportedNameError`, which is also an `AttributeError`.

    Args:
        model_name_or_path: A folder, a name on the Hugging Face hub, or a bare name there of the organisation
            sentence-transformers; see `grilly.hub.resolve`.
        modules: In place of a name, a list of modules: `Transformer(name)` of
            `grilly.sentence_transformer.module_kinds`, `Pooling(...)` and so on. With a name they are ignored.
        device: `"cuda"`, `"mps"` or `"vulkan"` for the best Vulkan device, and the CPU with a warning where there is
            none; `"cuda:N"` or `"vulkan:N"` for number N; `"cpu"`; `"auto"`, as None, for the best Vulkan device, but
            the CPU where that is an integrated GPU which is slower, measured once.
        prompts: Texts by name, prepended to inputs; override the model's own.
        default_prompt_name: The prompt used when a call names none; default: the model's own.
        cache_folder: Root of the Hugging Face cache; default: `$SENTENCE_TRANSFORMERS_HOME`, else Hugging Face's own.
        trust_remote_code: Accepted; no code of a model's repository is run, and this is logged.
        revision: Branch, tag or commit on the hub; default `"main"`.
        local_files_only: Whether to skip the hub.
        token: For private models on the hub; not pickled with the model.
        use_auth_token: The older name of `token`.
        model_kwargs: `dtype` or `torch_dtype`; `device_map` with one device; `default_task`, the task of calls without
            one; `use_safetensors`. Others that change no number are logged.
        processor_kwargs: Values that replace those of tokenizer_config.json.
        config_kwargs: Values that replace those of config.json; its `dtype` counts where `model_kwargs` names none.
        model_card_data: Ignored.
        backend: `"torch"`, which selects this package's own engine.
        similarity_fn_name: `"cosine"`, `"dot"`, `"euclidean"` or `"manhattan"`; default: the model's own, else cosine.
        truncate_dim: Dimensions kept of each embedding; default: the model's own, usually all.
        dtype: `"float32"`, `"float16"`, `"bfloat16"` or `"int8"`, NumPy's or torch's type. None or `"auto"`, if no
            other argument names one: the type in config.json, else the checkpoint's own, as in transformers 5.
        max_seq_length: Maximum tokens per text; default: the model's own.
        num_threads: CPU threads; default: the number the process may use, cgroup limits included.
        memory_limit: Maximum device memory for the weights of one task, in bytes; default: the limit of the device.
        float32_products: `"split"`, on a GPU's matrix cores with each number as the sum of two float16 numbers, or
            `"plain"`, a chain of float32 operations; default: the choice of `grilly.configure`, which is `"split"`.
            Both are the same on the CPU and without matrix cores for float16.
        numerics: `"run"`, the numbers of the device that runs, or `"everywhere"`, the same bits on every device, in
            float32 or int8 (`"everywhere-1"`: this version of them); default: the choice of `grilly.configure`, which
            is `"run"`. The guide "The same bits everywhere" tells what it costs.
        devices: In place of `device` several, which share the batches of a call: a list of `"vulkan:N"`, or `"all"`,
            every usable GPU. The rows are those of one. One that fails hands its batches to the others.
        mixed: Whether they may be of different kinds or drivers, where the last bits of a row depend on the one that
            computes it; default False. With `numerics="everywhere"` they may, since the bits are the same.

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
        config: The model's config.json, as a dict.

    Raises:
        ModelNotFoundError: The name cannot be resolved (also an `OSError`).
        ModelFormatError: The folder cannot be used (also a `ValueError`); `WeightsError` for its tensors,
            `NotFiniteError` for one that holds NaN or infinity.
        UnsupportedError: An architecture, a module or an option that this version does not support.
        IndexOutOfRangeError: There is no device N (also an `IndexError`).
        DeviceUnavailableError: No usable device, and `GRILLY_STRICT=1` (also a `RuntimeError`).

    The object is a context manager, and `close()`, the end of a `with` block and `del` free its device memory. Threads
    may share it. It is pickled by name and settings.

    Source: `sentence_transformers.SentenceTransformer`, version 6.2.

    Example:
        >>> from grilly import SentenceTransformer
        >>> with SentenceTransformer("all-MiniLM-L6-v2", device="cpu") as model:
        ...     embeddings = model.encode(["A cat sits on the mat.", "A kitten rests on a rug."])
        ...     embeddings.shape, model.similarity(embeddings, embeddings).shape
        ((2, 384), (2, 2))
    """

    __module__ = "grilly.sentence_transformers"  # by which other libraries know it

    @older_keywords("SentenceTransformer")
    @constructor(PlainArguments)
    def __init__(self, given: PlainArguments) -> None:
        self._load(given)
        self._say(f"backend={given.backend!r} is this package's own engine, on {self.backend}: {self.device_name}")

    @overload
    def encode(
        self,
        inputs: Texts,
        prompt_name: str | None = ...,
        prompt: str | None = ...,
        batch_size: int = ...,
        show_progress_bar: bool | None = ...,
        *,
        precision: str | None = ...,
        device: Any = ...,
        normalize_embeddings: bool = ...,
        truncate_dim: int | None = ...,
    ) -> npt.NDArray[Any]: ...

    @overload
    def encode(self, *arguments: Any, **options: Any) -> Any: ...

    @older_keywords("SentenceTransformer.encode")
    @as_request(Wanted)
    def encode(
        self,
        inputs: Texts,
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        output_value: Output | None = "sentence_embedding",
        precision: str | None = "float32",
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        device: Any = None,
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
        pool: dict[str, Any] | None = None,
        chunk_size: int | None = None,
        **options: Any,
    ) -> Any:
        """Embeddings of `inputs`: `pool(encoder(prompt + text))`, truncated to `truncate_dim`.

        Args:
            inputs: A str, or a list, tuple or NumPy array of str; also under the names `sentences` and `texts`. An item
                may be `{"text": ...}` or a pair of texts, which has the tokenizer's template of two.
            prompt_name: Name of a prompt in `prompts`.
            prompt: A prompt itself; takes precedence over `prompt_name`.
            batch_size: Maximum texts per batch; a device's token budget may reduce it. No number depends on it.
            show_progress_bar: Whether to show a tqdm bar; None: if the logger `grilly` logs at level INFO.
            output_value: `"sentence_embedding"`; `"token_embeddings"` for the encoder's last hidden state `(T, H)` of
                each text, as a list; None for a dict per text, with `input_ids`, `attention_mask`,
                `token_embeddings` and `sentence_embedding`, without padding and not normalised.
            precision: `"float32"`, `"int8"`, `"uint8"`, `"binary"` or `"ubinary"`, as `grilly.util` has them.
            convert_to_numpy: False returns a list of the rows, as arrays.
            convert_to_tensor: True returns a torch tensor on the CPU, without torch a `grilly.numbers.Numbers`.
            device: The device for this call only, or a list of devices that share its batches, as of a pool.
            normalize_embeddings: Whether each row is divided by `max(norm, 1e-12)`.
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

        Source: `sentence_transformers.SentenceTransformer.encode`, version 6.2.

        Example:
            >>> from grilly import SentenceTransformer
            >>> with SentenceTransformer("all-MiniLM-L6-v2", device="cpu") as model:
            ...     model.encode(["Hello", "World"], "query", batch_size=1).shape
            (2, 384)
        """

    @older_keywords("SentenceTransformer.encode")
    @arguments_of(encode)
    def encode_query(self, inputs: Texts, **options: Any) -> Any:
        """`encode` with the task `query` and the prompt of that name, unless one is given.

        Every model has that prompt; it is empty unless the model or the constructor defines it, and replaces the
        default prompt even when empty. Arguments and results are those of `encode`.

        Source: `sentence_transformers.SentenceTransformer.encode_query`, version 6.2.

        Example:
            >>> from grilly import SentenceTransformer
            >>> with SentenceTransformer("all-MiniLM-L6-v2", device="cpu") as model:
            ...     model.encode_query("Where is the cat?").shape
            (384,)
        """
        return self._encode(inputs, Wanted(**options, task="query"))

    @older_keywords("SentenceTransformer.encode")
    @arguments_of(encode)
    def encode_document(self, inputs: Texts, **options: Any) -> Any:
        """`encode` with the task `document` and its prompt, unless one is given.

        The prompt is the first existing one of `document`, `passage` and `corpus`. Arguments and results are those of
        `encode`.

        Source: `sentence_transformers.SentenceTransformer.encode_document`, version 6.2.

        Example:
            >>> from grilly import SentenceTransformer
            >>> with SentenceTransformer("all-MiniLM-L6-v2", device="cpu") as model:
            ...     model.encode_document("Where is the cat?").shape
            (384,)
        """
        return self._encode(inputs, Wanted(**options, task="document"))

    @older_name("encode(sentences, pool=pool)", DeprecationWarning)
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
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
    ) -> npt.NDArray[np.generic]:
        """The older name of `encode(sentences, pool=pool)`, with the same rows.

        Source: `sentence_transformers.SentenceTransformer.encode_multi_process`, version 6.2.

        Example:
            >>> from grilly import SentenceTransformer
            >>> with SentenceTransformer("all-MiniLM-L6-v2", device="cpu") as model:
            ...     pool = model.start_multi_process_pool(["cpu", "cpu"])
            ...     model.encode_multi_process(["Hello", "World"], pool).shape
            (2, 384)
        """
