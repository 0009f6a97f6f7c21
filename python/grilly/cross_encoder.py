"""`CrossEncoder`: scores of pairs of texts, with sentence-transformers' names and numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from grilly.closed import closed
from grilly.errors import GrillyError, InvalidArgumentError, InvalidTypeError
from grilly.inputs import as_int, as_pairs, check_options, need_type
from grilly.scores import Activation, apply_activation, softmax
from grilly.scoring import Scoring, check_tokens, without_labels
from grilly.sentence_transformer.aliases import older_keywords, texts_by_any_name
from grilly.sentence_transformer.arguments import ModelArguments, constructor
from grilly.sentence_transformer.calls import Request, progress
from grilly.sentence_transformer.moving import Moving
from grilly.sentence_transformer.names import refuse
from grilly.sentence_transformer.streaming import parts_of
from grilly.tensors import as_tensor, like

__all__ = ["CrossEncoder"]

Pair = Sequence[str]


@dataclass(frozen=True, eq=False, repr=False)
class CrossArguments(ModelArguments):
    """The constructor arguments of `CrossEncoder`."""

    _: KW_ONLY
    num_labels: int | None = None
    max_length: int | None = None
    activation_fn: Activation | None = None
    keep_in_fp32_modules: list[str] | None = None
    true_token: str | None = None
    false_token: str | None = None
    max_seq_length: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_seq_length", self.max_length)
        given = tuple(token for token in (self.true_token, self.false_token) if token is not None)
        object.__setattr__(self, "score_tokens", given or None)


@closed()
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScoreRequest(Request):
    """The arguments of `predict` besides the pairs."""

    activation_fn: Activation | None = None
    apply_softmax: bool | None = False
    convert_to_numpy: bool = True
    convert_to_tensor: bool = False


@closed("activation_fn")
class CrossEncoder(Scoring, Moving):
    """A model that scores pairs of texts, with the interface of `sentence_transformers.CrossEncoder`, without torch.

    A pair is tokenized in the tokenizer's template of two texts; a pair over the limit loses tokens of its longer text.
    Where the tokenizer has a chat template, a pair is its query and its document, and a prompt the system's message.
    The encoder's head gives one logit per label, or a decoder those of two tokens, of which one is subtracted from the
    other, and the activation function makes scores of them.

    Args:
        model_name_or_path: A folder, a name on the Hugging Face hub, or a bare name there of the organisation
            cross-encoder; see `grilly.hub.resolve`.
        device: As for `SentenceTransformer`, like `prompts`, `default_prompt_name`, `cache_folder`,
            `trust_remote_code`, `revision`, `local_files_only`, `token`, `model_kwargs`, `processor_kwargs`,
            `model_card_data`, `backend`, `dtype`, `num_threads`, `memory_limit`, `float32_products`, `numerics`,
            `devices` and `mixed`.
        config_kwargs: As there; also `num_labels`, and `classifier_dropout`, which changes nothing.
        num_labels: Labels that the model must have; default: those it has.
        max_length: Maximum tokens per pair; default: the model's own.
        activation_fn: A function of logits `(N, L)`, arrays or torch's tensors. Default: the one in the model's
            configuration, else the sigmoid for one label and the identity for several.
        keep_in_fp32_modules: Paths of linear layers that compute in float32; see `set_keep_in_fp32_modules`.
        true_token: Of a decoder without modules.json (`...ForCausalLM`), the token whose logit after a pair is its
            score, by its name in the vocabulary or as a text of one token; default: "yes", minus that of "no".
        false_token: The token whose logit is subtracted; default: none where `true_token` is given.

    Attributes:
        activation_fn: The function of the logits; may be changed.
        keep_in_fp32_modules: The argument, as a list; may be changed.
        model_name: The name as it was given; also `device`, `dtype`, `prompts`, `default_prompt_name`, `tokenizer` and
            `config`, as for `SentenceTransformer`.

    Raises:
        ModelFormatError: The folder cannot be used (also a `ValueError`); `WeightsError` for its tensors, such as a
            head that is missing.
        UnsupportedError: An architecture without a known head, a chat template that leaves out a text of a pair, an
            activation function that is not known.
        InvalidArgumentError: `num_labels` is not the model's number of labels; `true_token` or `false_token` is not one
            token, or the model says itself what is scored.

    Other errors are those of `SentenceTransformer`. The object is a context manager, like that one. The keywords of
    former versions that 6.2 accepts are accepted, with a warning in the log, here and in the methods: `automodel_args`,
    `tokenizer_args`, `default_activation_function`, `classifier_dropout`, `activation_fct`, `num_workers` and others.

    Source: `sentence_transformers.CrossEncoder`, version 6.2.

    Example:
        >>> from grilly import CrossEncoder
        >>> with CrossEncoder(ranker, device="cpu") as model:
        ...     model.predict([("Where is the cat?", "On the mat."), ("Where is the cat?", "Rates rose.")]).shape
        (2,)
    """

    __module__ = "grilly.sentence_transformers"  # by which other libraries know it
    kind = "CrossEncoder"
    default_huggingface_organization = "cross-encoder"
    usual_prompts: ClassVar[tuple[str, ...]] = ()

    @older_keywords("CrossEncoder")
    @constructor(CrossArguments)
    def __init__(self, given: CrossArguments) -> None:
        function = given.activation_fn
        if function is not None and not callable(function):
            raise InvalidTypeError(f"activation_fn is of type {type(function).__name__}, expected a function")
        check_tokens(given.true_token, given.false_token)
        config_kwargs, labels = without_labels(given.config_kwargs, given.num_labels)
        self._load(replace(given, config_kwargs=config_kwargs))
        if labels is not None and labels != self.num_labels:
            self.close()
            raise InvalidArgumentError(
                f"num_labels is {labels}, but the head of the model has {self.num_labels}; leave the argument out"
            )
        self.activation_fn = function or self.get_default_activation_fn()
        self._say(f"backend={given.backend!r} is this package's own engine, on {self.backend}: {self.device_name}")
        try:
            stated = self._core.settings["keep_in_fp32_modules"]
            self.set_keep_in_fp32_modules(given.keep_in_fp32_modules or stated or [])
        except GrillyError:
            self.close()
            raise

    @older_keywords("CrossEncoder.predict")
    @texts_by_any_name
    def predict(
        self,
        inputs: Sequence[Pair] | Pair | npt.NDArray[Any],
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        activation_fn: Activation | None = None,
        apply_softmax: bool | None = False,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        device: Any = None,
        pool: dict[str, Any] | None = None,
        chunk_size: int | None = None,
        **options: Any,
    ) -> Any:
        """Scores of pairs: `activation_fn(head(encoder(first, second)))`.

        Args:
            inputs: A pair of str, as a list, a tuple or an array, or a list of pairs; also under the name `sentences`.
                A str alone is scored as a single text.
            prompt_name: Name of a prompt in `prompts`; it begins the first text of each pair.
            prompt: A prompt itself; takes precedence over `prompt_name`.
            batch_size: Maximum pairs per batch. No number depends on it.
            show_progress_bar: Whether to show a tqdm bar; None: if the logger `grilly` logs at level INFO.
            activation_fn: A function for this call only; it is called once, on the logits of all pairs, or of a part.
            apply_softmax: Whether scores of several labels become `exp(x) / sum exp(x)`, after `activation_fn`.
            convert_to_numpy: False returns a list of the rows.
            convert_to_tensor: True returns a torch tensor on the CPU, without torch a `grilly.numbers.Numbers`.
            device: The device for this call only, or a list of devices that share its batches, as of a pool.
            pool: Returned by `start_multi_process_pool`; the scores are the same without.
            chunk_size: Pairs scored at a time of an iterator, by default 8,192; accepted with a pool. No number
                depends on it.
            **options: `task` has no effect.

        Returns:
            float32 `(N,)` for one label and `(N, L)` for several, without the axis `N` for one pair; `np.array([])` for
            an empty list. Of an iterator of pairs, such as a generator, an iterator of the scores of `chunk_size` each.

        Raises:
            InvalidTypeError: An item is not a pair of str (also a `TypeError`).
            InvalidArgumentError: An invalid value, an unknown keyword (also a `ValueError`).
            NotFiniteError: A logit is NaN or infinite.
            UnusableError: After `close()` or a fork.

        Source: `sentence_transformers.CrossEncoder.predict`, version 6.2.

        Example:
            >>> scores = ranker_model.predict([("a cat", "a kitten"), ("a cat", "rates")], batch_size=1)
            >>> scores.shape, scores.dtype.name
            ((2,), 'float32')
        """
        wanted = ScoreRequest(
            prompt_name=prompt_name, prompt=prompt, batch_size=batch_size, show_progress_bar=show_progress_bar,
            activation_fn=activation_fn, apply_softmax=apply_softmax, convert_to_numpy=convert_to_numpy,
            convert_to_tensor=convert_to_tensor, device=device, pool=pool, chunk_size=chunk_size,
            options=options,
        )  # fmt: skip
        check_options("predict", options, named=vars(wanted))
        if isinstance(inputs, Iterator):
            return parts_of(inputs, wanted, self._predict)
        return self._predict(inputs, wanted)

    def _predict(self, inputs: Any, wanted: ScoreRequest, advance: Any = None) -> Any:
        """The scores of pairs that are there, or of a single one."""
        single = self.is_singular_input(inputs)
        texts, firsts, seconds = as_pairs([inputs] if single else inputs)
        call = self._call(wanted, None)
        count = len(texts) or len(firsts)
        if count == 0:
            call.core.require_open()
            if wanted.convert_to_tensor:
                return as_tensor(np.array([], np.float32))
            return np.array([]) if wanted.convert_to_numpy else []
        with nullcontext(advance) if advance else progress(count, wanted.show_progress_bar) as advance:
            found = call.encode(texts, advance) if texts else call.encode_pairs(firsts, seconds, advance)
        scores = apply_activation(wanted.activation_fn or self.activation_fn, found.texts, call.core.numerics)
        if self.num_labels == 1:
            scores = scores[:, 0]
        elif wanted.apply_softmax:
            scores = apply_activation(softmax, scores, call.core.numerics)
        result: Any = scores
        if wanted.convert_to_tensor:
            result = as_tensor(np.ascontiguousarray(scores))
        elif not wanted.convert_to_numpy:
            result = list(like(scores))
        return result[0] if single else result

    @older_keywords("CrossEncoder.rank")
    def rank(
        self,
        query: str,
        documents: Sequence[str],
        top_k: int | None = None,
        return_documents: bool = False,
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        activation_fn: Activation | None = None,
        device: Any = None,
        pool: dict[str, Any] | None = None,
        chunk_size: int | None = None,
    ) -> list[dict[str, Any]]:
        """The documents by their score with `query`, the highest first; equal scores keep their order.

        Args:
            query: The first text of every pair.
            documents: The second texts.
            top_k: Documents to return; default: all. A negative number leaves out so many of the last.
            return_documents: Whether to return the texts, too.
            prompt_name: As for `predict`, like the arguments after it.

        Returns:
            A list of dicts with `corpus_id`, the document's place in `documents`, `score` and, if asked for, `text`.

        Raises:
            InvalidArgumentError: The model has several labels.
            InvalidTypeError: `top_k` is not a whole number.

        Source: `sentence_transformers.CrossEncoder.rank`, version 6.2.

        Example:
            >>> found = ranker_model.rank("a cat", ["a kitten", "rates", "a dog"], top_k=2, return_documents=True)
            >>> [sorted(row) for row in found]
            [['corpus_id', 'score', 'text'], ['corpus_id', 'score', 'text']]
        """
        if self.num_labels != 1:
            raise InvalidArgumentError(
                f"rank() needs one score per pair, this model has {self.num_labels}; use predict()"
            )
        most = None if top_k is None else as_int(top_k, "top_k")
        need_type(query, str, "query", "str; rank(query, documents) takes one text, then a list")
        if isinstance(documents, str):
            raise InvalidTypeError("documents is of type str, expected a list of str; rank(query, documents)")
        given = list(documents)
        scores = self.predict(
            [(query, document) for document in given], prompt_name, prompt, batch_size, show_progress_bar,
            activation_fn, device=device, pool=pool, chunk_size=chunk_size,
        )  # fmt: skip
        found: list[dict[str, Any]] = [
            {"corpus_id": place, "score": score} | ({"text": given[place]} if return_documents else {})
            for place, score in enumerate(scores.tolist())
        ]
        return sorted(found, key=lambda row: row["score"], reverse=True)[:most]


refuse(CrossEncoder)
