"""`MultiVectorEncoder`: a vector for each token of a text, with sentence-transformers' names and numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from grilly.closed import closed
from grilly.errors import UnsupportedError
from grilly.inputs import as_int, as_list, check_options, need_one_of
from grilly.multi_vector_results import MultiVectorRequest, results
from grilly.multi_vectors import MultiVectors
from grilly.sentence_transformer.aliases import arguments_of, as_request
from grilly.sentence_transformer.arguments import constructor
from grilly.sentence_transformer.calls import Calls, progress
from grilly.sentence_transformer.encoding import Texts
from grilly.sentence_transformer.moving import Moving
from grilly.sentence_transformer.names import refuse
from grilly.sentence_transformer.settings import SimilarArguments
from grilly.sentence_transformer.streaming import parts_of
from grilly.token_pooling import HierarchicalTokenPooling, pooling_of
from grilly.token_products import TokenProducts, kind_of, token_vectors

__all__ = ["MultiVectorEncoder"]

EXPANDED = (
    "preprocess of queries that are expanded: encode_query(texts, output_value=None) gives their ids and which tokens "
    "are scored"
)


@dataclass(frozen=True, eq=False, repr=False)
class MultiVectorArguments(SimilarArguments):
    """The constructor arguments of `MultiVectorEncoder`."""


@closed()
class MultiVectorEncoder(Calls, MultiVectors, Moving):
    """A late-interaction model (ColBERT), with the interface of `sentence_transformers.MultiVectorEncoder`.

    A text has a vector for each of its tokens, and the score of a query with a document is
    `sum_t max_u q[t] . d[u]` over their vectors: see `grilly.util.maxsim`. Folders of sentence-transformers 6.2, of
    PyLate and of Stanford's ColBERT load; the guide "Late interaction" tells which.

    Args:
        model_name_or_path: A folder, or a name on the Hugging Face hub; see `grilly.hub.resolve`.
        device: As for `SentenceTransformer`, like all arguments but the next; `truncate_dim` is not one of them.
        similarity_fn_name: `"maxsim"`, or `"meanmaxsim"`, which divides by the number of the query's vectors; default:
            the model's own, else maxsim.

    Attributes:
        model_name: The name as it was given; also `device`, `dtype`, `prompts`, `default_prompt_name`, `tokenizer` and
            `config`, as for `SentenceTransformer`.

    Raises:
        ModelFormatError: The folder cannot be used (also a `ValueError`); `WeightsError` for its tensors, such as the
            projection of Stanford's ColBERT.
        UnsupportedError: A folder without a projection of the tokens' vectors, or modules after a
            HierarchicalTokenPooling.

    Other errors are those of `SentenceTransformer`. The object is a context manager, like that one.

    Source: `sentence_transformers.MultiVectorEncoder`, version 6.2.

    Example:
        >>> from grilly import MultiVectorEncoder
        >>> with MultiVectorEncoder(colbert, device="cpu") as model:
        ...     queries = model.encode_query(["Where is the cat?"])
        ...     documents = model.encode_document(["A cat sits on the mat.", "Rates rose."])
        ...     queries[0].shape, documents[1].shape, model.similarity(queries, documents).shape
        ((12, 24), (8, 24), (1, 2))
    """

    __module__ = "grilly.sentence_transformers"  # by which other libraries know it
    kind = "MultiVectorEncoder"
    _card = (
        "sentence-similarity",
        "Texts to a vector of {} numbers for each of their tokens",
        'queries = model.encode_query(["A query."])\ndocuments = model.encode_document(["A text.", "Another."])\n'
        "print(model.similarity(queries, documents))",
    )

    @constructor(MultiVectorArguments)
    def __init__(self, given: MultiVectorArguments) -> None:
        self._load(given)
        if self._options.kind != self.kind and self._similarity_fn_name is None:
            self._similarity_fn_name = "meanmaxsim"  # as FlagEmbedding scores what such a folder gives
        self._say(f"backend={given.backend!r} is this package's own engine, on {self.backend}: {self.device_name}")

    @as_request(MultiVectorRequest)
    def encode(
        self,
        inputs: Texts,
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        output_value: Literal["token_embeddings"] | None = "token_embeddings",
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        device: Any = None,
        normalize_embeddings: bool = False,
        pool: dict[str, Any] | None = None,
        chunk_size: int | None = None,
        token_pooling: Any = None,
        **options: Any,
    ) -> Any:
        """Vectors of the tokens of `inputs` that are scored: `modules(encoder(prompt + text))`.

        Args:
            inputs: A str, or a list, tuple or NumPy array of str; also under the names `sentences` and `texts`.
            prompt_name: Name of a prompt in `prompts`.
            prompt: A prompt itself; takes precedence over `prompt_name`.
            batch_size: Maximum texts per batch. No number depends on it.
            show_progress_bar: Whether to show a tqdm bar; None: if the logger `grilly` logs at level INFO.
            output_value: `"token_embeddings"`; None for a dict per text, with `input_ids`, `attention_mask` and
                `token_embeddings` of all tokens, without padding: the mask says which are scored.
            convert_to_numpy: Accepted; results are NumPy arrays unless tensors are asked for.
            convert_to_tensor: True returns torch tensors on the CPU, where torch is installed; the default there.
            device: The device for this call only, or a list of devices that share its batches, as of a pool.
            normalize_embeddings: Whether each vector is divided by `max(norm, 1e-12)`.
            pool: Returned by `start_multi_process_pool`; the vectors are the same without.
            chunk_size: Texts encoded at a time of an iterator, by default 8,192; accepted with a pool. No number
                depends on it.
            token_pooling: What pools the vectors of each text, after `normalize_embeddings`, in texts of its tasks, by
                default documents: a `grilly.token_pooling.HierarchicalTokenPooling` or another one there, one of
                sentence-transformers, a factor (vectors for each that stays) or a function of `(T, D)`.
            **options: `task`, which is `"query"` or `"document"`: it chooses the limit of tokens, whether the text is
                expanded, and which of its tokens are scored. Without one a text is not expanded, and counts as a
                document for what is scored.

        Returns:
            A list of `(T, D)`, T scored tokens of each text, or the array itself for a str: float32, float16 for a
            model of that type. An empty list for one. Of an iterator, such as a generator, an iterator of such lists.

        Raises:
            InvalidTypeError: An item is not a str (also a `TypeError`).
            InvalidArgumentError: An invalid value, an unknown keyword, a lone surrogate (also a `ValueError`).
            NotFiniteError: A vector contains NaN or infinity.
            UnusableError: After `close()` or a fork.

        Source: `sentence_transformers.MultiVectorEncoder.encode`, version 6.2.

        Example:
            >>> colbert_model.encode("A cat.", task="document").shape
            (5, 24)
        """

    @arguments_of(encode)
    def encode_query(self, inputs: Texts, **options: Any) -> Any:
        """`encode` with the task `query` and the prompt of that name, unless one is given.

        A query has at most `query_length` tokens of the model's settings, or, with `query_expansion`, exactly its
        length, or at least that: a token is put after its own, whose vectors are scored, too. Arguments and results are
        those of `encode`.

        Source: `sentence_transformers.MultiVectorEncoder.encode_query`, version 6.2.

        Example:
            >>> colbert_model.encode_query("Where is the cat?").shape
            (12, 24)
        """
        return self._encode(inputs, MultiVectorRequest(**options, task="query"))

    @arguments_of(encode)
    def encode_document(self, inputs: Texts, **options: Any) -> Any:
        """`encode` with the task `document` and its prompt, unless one is given.

        A document has at most `document_length` tokens of the model's settings, and those in `skiplist_words` are not
        scored. The prompt is the first existing one of `document`, `passage` and `corpus`. Arguments and results are
        those of `encode`.

        Source: `sentence_transformers.MultiVectorEncoder.encode_document`, version 6.2.

        Example:
            >>> colbert_model.encode_document("On the mat.").shape
            (6, 24)
        """
        return self._encode(inputs, MultiVectorRequest(**options, task="document"))

    def _encode(self, inputs: Any, wanted: MultiVectorRequest) -> Any:
        """The result of the three methods."""
        check_options("encode", wanted.options, self._core.call_options, vars(wanted))
        need_one_of(wanted.output_value, (None, "token_embeddings"), "output_value")
        pooling_of(wanted.token_pooling)
        if isinstance(inputs, Iterator):
            return parts_of(inputs, wanted, self._encode_list)
        return self._encode_list(inputs, wanted)

    def _encode_list(self, inputs: Any, wanted: MultiVectorRequest, advance: Any = None) -> Any:
        """The result of texts that are there, or of a single one."""
        inputs, task = self._task(inputs, wanted.options, wanted.task)
        items, single = as_list(inputs)
        call = self._call(wanted, task)
        if not items:
            call.core.require_open()
            return []
        with nullcontext(advance) if advance else progress(len(items), wanted.show_progress_bar) as advance:
            found = token_vectors(call.encode(items, advance, tokens=True), call.core, self.tokenizer)
        result = results(found, wanted, call.core, task, self._own_pooling())
        return result[0] if single else result

    def _own_pooling(self) -> HierarchicalTokenPooling | None:
        """The pooling among the modules, which is the last of them."""
        if self._core.modules[-1][0] != HierarchicalTokenPooling.__name__:
            return None
        settings = json.loads(self._core.module_settings)[-1]
        del settings["kind"]
        return HierarchicalTokenPooling(settings.pop("pool_factor"), **settings)

    def rank(
        self,
        query: str,
        documents: Sequence[str],
        top_k: int | None = None,
        return_documents: bool = False,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        device: Any = None,
    ) -> list[dict[str, Any]]:
        """The documents by their score with `query`, the highest first; equal scores keep their order.

        Args:
            query: The text that is compared with all others.
            documents: These.
            top_k: Documents to return; default: all. A negative number leaves out so many of the last.
            return_documents: Whether to return the texts, too.
            batch_size: As for `encode`, like `show_progress_bar` and `device`.

        Returns:
            A list of dicts with `corpus_id`, the document's place in `documents`, `score` and, if asked for, `text`, as
            `CrossEncoder.rank` gives. sentence-transformers has no such method of this class.

        Raises:
            InvalidTypeError: `top_k` is not a whole number.

        Example:
            >>> found = colbert_model.rank("a cat", ["a kitten", "rates", "a dog"], top_k=2, return_documents=True)
            >>> [sorted(row) for row in found]
            [['corpus_id', 'score', 'text'], ['corpus_id', 'score', 'text']]
        """
        most = None if top_k is None else as_int(top_k, "top_k")
        given = list(documents)
        more = {"batch_size": batch_size, "show_progress_bar": show_progress_bar, "device": device}
        scores = self.similarity([self.encode_query(query, **more)], self.encode_document(given, **more))[0]
        found: list[dict[str, Any]] = [
            {"corpus_id": place, "score": score} | ({"text": given[place]} if return_documents else {})
            for place, score in enumerate(scores.tolist())
        ]
        return sorted(found, key=lambda row: row["score"], reverse=True)[:most]

    def preprocess(self, inputs: Any, prompt: str | None = None, **options: Any) -> dict[str, Any]:
        """As `SentenceTransformer.preprocess`, but of queries only where the model does not expand them.

        Raises:
            UnsupportedError: `task="query"` of a model with `query_expansion`.

        Source: `sentence_transformers.MultiVectorEncoder.preprocess`, version 6.2.

        Example:
            >>> colbert_model.preprocess(["A cat."])["input_ids"].shape[0]
            1
        """
        if options.get("task") == "query" and "query_expansion" in json.loads(self._core.module_settings)[0]:
            raise UnsupportedError(EXPANDED)
        return super().preprocess(inputs, prompt, **options)

    def _kind_of(self, folder: Path) -> str:
        return kind_of(folder, self.kind)

    def _columns(self) -> int:
        products = TokenProducts.of(self._core, self.tokenizer)
        return super()._columns() if products is None else products.columns

    def set_pooling_include_prompt(self, include_prompt: bool) -> None:
        """No effect: nothing is pooled, and the tokens of a prompt are scored.

        Example:
            >>> colbert_model.set_pooling_include_prompt(False)
        """


refuse(MultiVectorEncoder)
