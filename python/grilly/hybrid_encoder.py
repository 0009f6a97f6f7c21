"""`HybridEncoder`: a vector of each text, weights of its tokens, and their vectors, from one pass of the encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grilly._core import Encoded
from grilly.closed import closed
from grilly.errors import InvalidArgumentError
from grilly.hybrid_scores import Comparing, compared_pairwise
from grilly.inputs import as_list, as_pairs, check_options, need_type, positive
from grilly.sentence_transformer.aliases import arguments_of, as_request
from grilly.sentence_transformer.arguments import ModelArguments, constructor
from grilly.sentence_transformer.calls import Call, Calls, Request, progress
from grilly.sentence_transformer.encoding import Texts
from grilly.sentence_transformer.moving import Moving
from grilly.sentence_transformer.names import refuse
from grilly.tensors import stored
from grilly.token_products import KIND, TokenProducts

__all__ = ["HybridEncoder"]


@closed()
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HybridRequest(Request):
    """The arguments of `encode` besides the texts."""

    max_length: int | None = None
    return_dense: bool = True
    return_sparse: bool = True
    return_colbert_vecs: bool = True


@closed()
class HybridEncoder(Calls, Comparing, Moving):
    """A model of dense, sparse and multi-vector results, such as BGE-M3, with FlagEmbedding's names, without torch.

    Of the last hidden states h of a text's tokens it computes, in one pass, `h_0 / ||h_0||`, the weight
    `max(0, max_t w . h_t + b)` of each token over its places t, and the vectors `(W h_t + c) / ||W h_t + c||` of all
    tokens but the first. The folder has `sparse_linear.pt` (w, b) and `colbert_linear.pt` (W, c) beside its checkpoint;
    `SentenceTransformer`, `SparseEncoder` and `MultiVectorEncoder` load one part each from the same folder.

    Args:
        model_name_or_path: A folder, or a name on the Hugging Face hub; see `grilly.hub.resolve`.
        device: As for `SentenceTransformer`, like all arguments; `truncate_dim` is not one of them.

    Raises:
        ModelFormatError: A file is missing, or cannot be read (also a `ValueError`); `WeightsError` for its tensors.

    Other errors are those of `SentenceTransformer`. The object is a context manager, like that one.

    Source: FlagEmbedding 1.4, `BGEM3FlagModel`; Chen et al. 2024, "M3-Embedding".

    Example:
        >>> from grilly import HybridEncoder
        >>> with HybridEncoder(hybrid, device="cpu") as model:
        ...     found = model.encode(["A cat sits on the mat.", "Rates rose."])
        ...     found["dense_vecs"].shape, len(found["lexical_weights"]), found["colbert_vecs"][1].shape
        ((2, 36), 2, (8, 24))
    """

    __module__ = "grilly.sentence_transformers"  # by which other libraries know it
    kind = KIND
    default_huggingface_organization = "BAAI"
    usual_prompts = ()

    @constructor(ModelArguments)
    def __init__(self, given: ModelArguments) -> None:
        self._load(given)
        self._say(f"backend={given.backend!r} is this package's own engine, on {self.backend}: {self.device_name}")

    @as_request(HybridRequest)
    def encode(
        self,
        sentences: Texts,
        batch_size: int = 32,
        max_length: int | None = None,
        return_dense: bool = True,
        return_sparse: bool = True,
        return_colbert_vecs: bool = True,
        prompt_name: str | None = None,
        prompt: str | None = None,
        show_progress_bar: bool | None = None,
        device: Any = None,
        pool: dict[str, Any] | None = None,
        chunk_size: int | None = None,
        **options: Any,
    ) -> Any:
        """All three results of `sentences`, from one pass.

        Args:
            sentences: A str, or a list, tuple or NumPy array of str; also under the names `inputs` and `texts`.
            batch_size: Maximum texts per batch. No number depends on it.
            max_length: Maximum tokens of a text, special ones included; default `max_seq_length`, where FlagEmbedding
                has 512.
            return_dense: Whether `dense_vecs` are returned, else None.
            return_sparse: Whether `lexical_weights` are.
            return_colbert_vecs: Whether `colbert_vecs` are.
            prompt_name: Name of a prompt in `prompts`.
            prompt: A prompt itself; takes precedence over `prompt_name`.
            show_progress_bar: Whether to show a tqdm bar; None: if the logger `grilly` logs at level INFO.
            device: The device for this call only, or a list of devices that share its batches, as of a pool.
            pool: Returned by `start_multi_process_pool`; the results are the same without.
            chunk_size: Accepted with a pool; no number depends on it.
            **options: None.

        Returns:
            A dict: `dense_vecs` `(N, D)`; `lexical_weights`, of each text a dict from the id of a token, as a str, to
            its weight above 0, without tokens of the roles cls, eos, pad and unk; `colbert_vecs`, of each text `(T - 1,
            C)`. Of a str those of the text alone. Arrays are float32, float16 for a model of that type.

        Raises:
            InvalidTypeError: An item is not a str (also a `TypeError`).
            InvalidArgumentError: An invalid value, an unknown keyword, a lone surrogate (also a `ValueError`).
            NotFiniteError: A number is NaN or infinite.
            UnusableError: After `close()` or a fork.

        Source: FlagEmbedding 1.4, `BGEM3FlagModel.encode`.

        Example:
            >>> found = hybrid_model.encode("A cat.", return_sparse=False)
            >>> found["dense_vecs"].shape, found["lexical_weights"], found["colbert_vecs"].shape
            ((36,), None, (6, 24))
        """

    @arguments_of(encode)
    def encode_queries(self, sentences: Texts, **options: Any) -> Any:
        """`encode` with the prompt called `query`, if there is one and none is given.

        Example:
            >>> hybrid_model.encode_queries(["Where is the cat?"])["dense_vecs"].shape
            (1, 36)
        """
        return self._encode(sentences, HybridRequest(**options, task="query"))

    @arguments_of(encode)
    def encode_corpus(self, sentences: Texts, **options: Any) -> Any:
        """`encode` with the first existing prompt of `document`, `passage` and `corpus`, if none is given.

        Example:
            >>> hybrid_model.encode_corpus(["On the mat."])["dense_vecs"].shape
            (1, 36)
        """
        return self._encode(sentences, HybridRequest(**options, task="document"))

    encode_query = encode_queries
    encode_document = encode_corpus

    def _encode(self, sentences: Any, wanted: HybridRequest) -> Any:
        """The result of the three methods."""
        check_options("encode", wanted.options, self._core.call_options, vars(wanted))
        for name in ("return_dense", "return_sparse", "return_colbert_vecs"):
            need_type(getattr(wanted, name), bool, name, "bool")
        most = None if wanted.max_length is None else positive(wanted.max_length, "max_length")
        items, single = as_list(sentences)
        call = self._call(wanted, wanted.task)
        call.core.require_open()
        products, numerics, dtype = TokenProducts(call.core, self.tokenizer), call.core.numerics, call.core.dtype
        with progress(len(items), wanted.show_progress_bar) as advance:
            found = self._rows(call, items, most, wanted, advance)
        dense = stored(found.texts, dtype) if wanted.return_dense else None
        weights, vectors = None, None
        if wanted.return_sparse:
            weights = [
                {str(number): float(weight) for number, weight in products.weights(rows, ids).items()}
                for rows, ids in zip(found.tokens, found.ids, strict=True)
            ]
        if wanted.return_colbert_vecs:
            vectors = [stored(products.vectors(rows, numerics), dtype) for rows in found.tokens]
        result = {"dense_vecs": dense, "lexical_weights": weights, "colbert_vecs": vectors}
        return {name: part if part is None else part[0] for name, part in result.items()} if single else result

    def _rows(self, call: Call, items: list[Any], most: int | None, wanted: HybridRequest, advance: Any) -> Encoded:
        """The outputs of texts, of at most so many tokens, and those of their tokens where they are wanted."""
        tokens = wanted.return_sparse or wanted.return_colbert_vecs
        if most is None or most >= self.max_seq_length or not items:
            return call.encode(items, advance, tokens=tokens)
        prompt = call.options["prompt"]
        texts = items if not prompt else [prompt + text if isinstance(text, str) else text for text in items]
        rows = self.tokenizer(texts, truncation=True, max_length=most)["input_ids"]
        found = call.encode_rows(rows, [[0] * len(row) for row in rows])
        if advance is not None:
            advance(len(items))
        return found

    # ------------------------------------------------------------------------------------------------------ comparing

    def compute_score(
        self,
        sentence_pairs: Any,
        batch_size: int = 32,
        max_query_length: int | None = None,
        max_passage_length: int | None = None,
        weights_for_different_modes: Sequence[float] | None = None,
        device: Any = None,
    ) -> dict[str, Any]:
        """Scores of pairs of texts, as `similarity` has them: `encode` of both texts, compared.

        Args:
            sentence_pairs: A pair of str, or a list of pairs.
            batch_size: Maximum texts per batch.
            max_query_length: Maximum tokens of the first texts; default `max_seq_length`.
            max_passage_length: Those of the second.
            weights_for_different_modes: As for `similarity`.
            device: The device for this call only.

        Returns:
            Five lists of float, or five float for one pair.

        Raises:
            InvalidTypeError: Not pairs of str.
            InvalidArgumentError: Single texts, or what `encode` and `similarity` refuse.

        Source: FlagEmbedding 1.4, `BGEM3FlagModel.compute_score`.

        Example:
            >>> sorted(hybrid_model.compute_score(("a cat", "A cat sits.")))
            ['colbert', 'colbert+sparse+dense', 'dense', 'sparse', 'sparse+dense']
        """
        single = isinstance(sentence_pairs, list | tuple) and len(sentence_pairs) == 2
        single = single and all(isinstance(text, str) for text in sentence_pairs)
        texts, firsts, seconds = as_pairs([sentence_pairs] if single else sentence_pairs)
        if texts:
            raise InvalidArgumentError("sentence_pairs are single texts, expected a pair of str or a list of pairs")
        more = {"batch_size": batch_size, "device": device, "show_progress_bar": False}
        queries = self.encode_queries(firsts, max_length=max_query_length, **more)
        documents = self.encode_corpus(seconds, max_length=max_passage_length, **more)
        scores = compared_pairwise(queries, documents, weights_for_different_modes)
        found = {name: values.tolist() for name, values in scores.items()}
        return {name: values[0] for name, values in found.items()} if single else found

    def convert_id_to_token(self, lexical_weights: Any) -> Any:
        """Lexical weights by the texts of their tokens in place of the ids: a dict, or a list of them as given.

        Example:
            >>> weights = hybrid_model.encode("A cat.")["lexical_weights"]
            >>> all(isinstance(token, str) for token in hybrid_model.convert_id_to_token(weights))
            True
        """
        single = isinstance(lexical_weights, Mapping)
        given = [lexical_weights] if single else list(lexical_weights)
        found = [
            {self.tokenizer.decode([int(number)]): weight for number, weight in weights.items()} for weights in given
        ]
        return found[0] if single else found


refuse(HybridEncoder)
