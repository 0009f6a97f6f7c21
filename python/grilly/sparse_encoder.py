"""`SparseEncoder`: one weight per word of each text, with sentence-transformers' names and numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from grilly.closed import closed
from grilly.inputs import as_list, check_options, positive
from grilly.sentence_transformer.aliases import arguments_of, as_request, older_keywords
from grilly.sentence_transformer.arguments import constructor
from grilly.sentence_transformer.calls import Calls, Request, progress
from grilly.sentence_transformer.encoding import Texts
from grilly.sentence_transformer.moving import Moving
from grilly.sentence_transformer.names import refuse
from grilly.sentence_transformer.saving import Saving
from grilly.sentence_transformer.settings import SimilarArguments
from grilly.sentence_transformer.streaming import parts_of
from grilly.sparse import Floats, SparseRows, most_active
from grilly.sparse_weights import SparseWeights
from grilly.tensors import as_tensor, stored
from grilly.token_products import PART as PART_OF_TOKENS
from grilly.token_products import TokenProducts, kind_of

__all__ = ["SparseEncoder"]

# Texts whose whole rows are in memory at a time.
PART = 1024


@dataclass(frozen=True, eq=False, repr=False)
class SparseArguments(SimilarArguments):
    """The constructor arguments of `SparseEncoder`."""

    _: KW_ONLY
    max_active_dims: int | None = None


@closed()
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SparseRequest(Request):
    """The arguments of `encode` besides the texts."""

    convert_to_tensor: bool = False
    convert_to_sparse_tensor: bool = True
    save_to_cpu: bool = False
    max_active_dims: int | None = None


@closed("max_active_dims")
class SparseEncoder(Calls, SparseWeights, Moving, Saving):
    """A SPLADE model, with the interface of `sentence_transformers.SparseEncoder`, without torch.

    `w_j = max_t log(1 + max(logit_tj, 0))` over the tokens t of a text, for each word j of the vocabulary, with the
    logits of a masked-language head; or the sum over t.

    Args:
        model_name_or_path: A folder, a name on the Hugging Face hub, or a bare name there of the organisation
            sparse-encoder; see `grilly.hub.resolve`.
        device: As for `SentenceTransformer`, like all arguments but the next two; `truncate_dim` is not one of them.
        similarity_fn_name: `"cosine"`, `"dot"`, `"euclidean"` or `"manhattan"`; default: the model's own, else dot.
        max_active_dims: Maximum weights of a text other than zero; default: the model's own, usually all.

    Attributes:
        max_active_dims: As above, or None; may be changed.
        model_name: The name as it was given; also `device`, `dtype`, `prompts`, `default_prompt_name`, `tokenizer` and
            `config`, as for `SentenceTransformer`.

    Raises:
        ModelFormatError: The folder cannot be used (also a `ValueError`); `WeightsError` for its tensors, such as a
            head that is missing.
        UnsupportedError: An architecture without a known head, or a module such as SparseAutoEncoder.

    Other errors are those of `SentenceTransformer`. The object is a context manager, like that one.

    Source: `sentence_transformers.SparseEncoder`, version 6.2.

    Example:
        >>> from grilly import SparseEncoder
        >>> with SparseEncoder(splade, device="cpu") as model:
        ...     embeddings = model.encode(["A cat sits on the mat.", "A kitten rests on a rug."])
        ...     embeddings.shape, model.similarity(embeddings, embeddings).shape
        ((2, 600), (2, 2))
    """

    __module__ = "grilly.sentence_transformers"  # by which other libraries know it
    kind = "SparseEncoder"
    default_huggingface_organization = "sparse-encoder"
    kept = (*SparseWeights.kept, "max_active_dims")
    _card = (
        "feature-extraction",
        "Texts to a weight for each of {} words",
        'embeddings = model.encode(["A text.", "Another."])\nprint(model.decode(embeddings, top_k=5))',
    )

    @older_keywords("SparseEncoder")
    @constructor(SparseArguments)
    def __init__(self, given: SparseArguments) -> None:
        most = None if given.max_active_dims is None else positive(given.max_active_dims, "max_active_dims")
        self._load(given)
        stated: int | None = self._core.settings.get("max_active_dims")
        self.max_active_dims: int | None = stated if most is None else most
        self._say(f"backend={given.backend!r} is this package's own engine, on {self.backend}: {self.device_name}")

    @older_keywords("SparseEncoder.encode")
    @as_request(SparseRequest)
    def encode(
        self,
        inputs: Texts,
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        convert_to_tensor: bool = False,
        convert_to_sparse_tensor: bool = True,
        save_to_cpu: bool = False,
        device: Any = None,
        max_active_dims: int | None = None,
        pool: dict[str, Any] | None = None,
        chunk_size: int | None = None,
        **options: Any,
    ) -> Any:
        """Sparse embeddings of `inputs`: `pool(log(1 + max(head(encoder(prompt + text)), 0)))`.

        Args:
            inputs: A str, or a list, tuple or NumPy array of str; also under the names `sentences` and `texts`.
            prompt_name: Name of a prompt in `prompts`.
            prompt: A prompt itself; takes precedence over `prompt_name`.
            batch_size: Maximum texts per batch. No number depends on it.
            show_progress_bar: Whether to show a tqdm bar; None: if the logger `grilly` logs at level INFO.
            convert_to_tensor: True returns a torch tensor on the CPU, where torch is installed; the default there.
            convert_to_sparse_tensor: Whether zeros are left out: a `grilly.sparse.SparseRows`, or a tensor in COO
                layout. False returns a whole array, or a whole tensor.
            save_to_cpu: Accepted; results are on the CPU.
            device: The device for this call only, or a list of devices that share its batches, as of a pool.
            max_active_dims: Maximum weights other than zero in this call; default: `self.max_active_dims`.
            pool: Returned by `start_multi_process_pool`; the rows are the same without.
            chunk_size: Texts encoded at a time of an iterator, by default 8,192; accepted with a pool. No number
                depends on it.
            **options: `task`, which chooses among the routes of a Router.

        Returns:
            `(N, V)`, or `(V,)` for a str, for V words: float32, float16 for a model of that type; `(0,)` for an empty
            list. Of an iterator, such as a generator, an iterator of the results of `chunk_size` texts each.

        Raises:
            InvalidTypeError: An item is not a str (also a `TypeError`).
            InvalidArgumentError: An invalid value, an unknown keyword, a lone surrogate (also a `ValueError`).
            NotFiniteError: A weight is NaN or infinite.
            UnusableError: After `close()` or a fork.

        Source: `sentence_transformers.SparseEncoder.encode`, version 6.2.

        Example:
            >>> splade_model.encode("A cat.", convert_to_sparse_tensor=False).shape
            (600,)
        """

    @older_keywords("SparseEncoder.encode")
    @arguments_of(encode)
    def encode_query(self, inputs: Texts, **options: Any) -> Any:
        """`encode` with the prompt called `query`, unless one is given.

        Arguments and results are those of `encode`.

        Source: `sentence_transformers.SparseEncoder.encode_query`, version 6.2.

        Example:
            >>> splade_model.encode_query("Where is the cat?").shape
            (600,)
        """
        return self._encode(inputs, SparseRequest(**options, task="query"))

    @older_keywords("SparseEncoder.encode")
    @arguments_of(encode)
    def encode_document(self, inputs: Texts, **options: Any) -> Any:
        """`encode` with the first existing prompt of `document`, `passage` and `corpus`, unless one is given.

        Arguments and results are those of `encode`.

        Source: `sentence_transformers.SparseEncoder.encode_document`, version 6.2.

        Example:
            >>> splade_model.encode_document("On the mat.").shape
            (600,)
        """
        return self._encode(inputs, SparseRequest(**options, task="document"))

    def _encode(self, inputs: Any, wanted: SparseRequest) -> Any:
        """The result of the three methods."""
        check_options("encode", wanted.options, self._core.call_options, vars(wanted))
        if isinstance(inputs, Iterator):
            return parts_of(inputs, wanted, self._encode_list)
        return self._encode_list(inputs, wanted)

    def _encode_list(self, inputs: Any, wanted: SparseRequest, advance: Any = None) -> Any:
        """The result of texts that are there, or of a single one."""
        inputs, task = self._task(inputs, wanted.options, wanted.task)
        given = wanted.max_active_dims
        most = self.max_active_dims if given is None else positive(given, "max_active_dims")
        items, single = as_list(inputs)
        call = self._call(wanted, task)
        dtype = call.core.dtype_for(task)

        def weights(texts: list[Any], advance: Any) -> Floats:
            rows = call.encode(texts, advance).texts
            return rows if most is None else most_active(stored(rows, dtype), most)

        tensors = wanted.convert_to_tensor
        if not items:
            call.core.require_open()
            none = np.zeros(0, np.float32)
            if wanted.convert_to_sparse_tensor:
                return as_asked(SparseRows.of(none), tensors)
            return as_tensor(none) if tensors else none
        products = TokenProducts.of(call.core, self.tokenizer)

        def weighted(start: int, advance: Any) -> SparseRows:
            assert products is not None
            part = items[start : start + PART_OF_TOKENS]
            return products.sparse(call.encode(part, after(start, advance), tokens=True), dtype, most)

        with nullcontext(advance) if advance else progress(len(items), wanted.show_progress_bar) as advance:
            if products is not None:
                rows = SparseRows.stack([weighted(start, advance) for start in range(0, len(items), PART_OF_TOKENS)])
                rows = rows[0] if single else rows
                if wanted.convert_to_sparse_tensor:
                    return as_asked(rows, tensors, dtype)
                return as_tensor(rows.toarray(), dtype) if tensors else rows.toarray()
            if not wanted.convert_to_sparse_tensor:
                dense = stored(weights(items, advance), dtype)
                dense = dense[0] if single else dense
                return as_tensor(dense, dtype) if tensors else dense
            # Whole rows of a part of the texts at a time: their zeros take most of the memory.
            starts = range(0, len(items), PART)
            parts = [
                SparseRows.of(weights(items[start : start + PART], after(start, advance)), dtype) for start in starts
            ]
        rows = SparseRows.stack(parts)
        rows = rows[0] if single else rows
        return as_asked(rows, tensors, dtype)

    # ----------------------------------------------------------------------------------------------- what the model is

    def _kind_of(self, folder: Path) -> str:
        return kind_of(folder, self.kind)

    def _columns(self) -> int:
        products = TokenProducts.of(self._core, self.tokenizer)
        return super()._columns() if products is None else products.words

    def set_pooling_include_prompt(self, include_prompt: bool) -> None:
        """No effect: SpladePooling pools the prompt's tokens, too.

        Example:
            >>> splade_model.set_pooling_include_prompt(False)
        """

    @property
    def splade_pooling_chunk_size(self) -> int | None:
        """None; setting it has no effect: logits are never computed for more than a slice of the words at a time."""
        return None

    @splade_pooling_chunk_size.setter
    def splade_pooling_chunk_size(self, value: int | None) -> None:
        pass


refuse(SparseEncoder)


def as_asked(rows: SparseRows, tensors: bool, dtype: str | None = None) -> Any:
    """Rows, or where tensors are asked for and torch is installed, a tensor."""
    try:
        return rows.to_torch(dtype) if tensors else rows
    except ImportError:
        return rows


def after(start: int, advance: Any) -> Any:
    """A callback for the number of texts done after `start` others; None without one."""
    return None if advance is None else lambda done: advance(start + done)
