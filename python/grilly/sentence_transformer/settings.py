"""Settings of an embedding model: similarity, dimensions, the pooling of prompts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from grilly.closed import closed
from grilly.errors import UnsupportedError
from grilly.inputs import need_one_of, positive
from grilly.sentence_transformer.aliases import older_name
from grilly.sentence_transformer.arguments import ModelArguments, Options
from grilly.sentence_transformer.sequence import ModuleSequence
from grilly.similarity import SIMILARITIES, Similarity

__all__ = ["Settings", "Similar"]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class SimilarArguments(ModelArguments):
    """The constructor arguments of a model whose embeddings can be compared."""

    _: KW_ONLY
    similarity_fn_name: Any = None


@dataclass(frozen=True, eq=False, repr=False)
class SentenceArguments(SimilarArguments):
    """Those of a model of one vector per text."""

    _: KW_ONLY
    use_auth_token: bool | str | None = None
    truncate_dim: int | None = None


class Similar(ModuleSequence):
    """A loaded model whose embeddings can be compared."""

    SUPPORTED_SIMILARITY_FN_NAMES: ClassVar[tuple[str, ...]] = tuple(SIMILARITIES)
    kept = (*ModuleSequence.kept, "_similarity_fn_name")
    #: The functions by name, each of all pairs and of rows at the same place.
    _similarities: ClassVar[Mapping[str, tuple[Similarity, Similarity]]] = SIMILARITIES
    #: Functions of sentence-transformers that are left out, each with the reason.
    _refused_similarities: ClassVar[Mapping[str, str]] = {}
    #: The function where neither the constructor nor the model names one.
    usual_similarity: ClassVar[str] = "cosine"

    def _load(self, arguments: ModelArguments, options: Options | None = None) -> None:
        self._similarity_fn_name: str | None = None
        if isinstance(arguments, SimilarArguments):
            self.similarity_fn_name = arguments.similarity_fn_name
        super()._load(arguments, options)
        similarity = self._core.settings["similarity_fn_name"]
        if self._similarity_fn_name is None and similarity in self._similarities:
            self._similarity_fn_name = similarity

    @property
    def similarity_fn_name(self) -> str:
        """The function of `similarity`, one of `SUPPORTED_SIMILARITY_FN_NAMES`; may be set."""
        return self._similarity_fn_name or self.usual_similarity

    @similarity_fn_name.setter
    def similarity_fn_name(self, value: Any) -> None:
        name = getattr(value, "value", value)
        if isinstance(name, str) and name in self._refused_similarities:
            raise UnsupportedError(f"similarity_fn_name is {name!r}: {self._refused_similarities[name]}")
        need_one_of(name, (*self._similarities, None), "similarity_fn_name")
        self._similarity_fn_name = name

    def get_embedding_dimension(self) -> int:
        """Columns of an embedding: those that `truncate_dim` keeps, of a sparse one the words of the vocabulary.

        Example:
            >>> model.get_embedding_dimension()
            384
        """
        return self._columns()

    @older_name("get_embedding_dimension", FutureWarning)
    def get_sentence_embedding_dimension(self) -> int:
        """The same as `get_embedding_dimension`.

        Example:
            >>> model.get_sentence_embedding_dimension()
            384
        """
        return self.get_embedding_dimension()

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Similarity of every row of the first to every row of the second: `(N, D)`, `(M, D)` give `(N, M)`.

        The functions are those of `grilly.similarity`; distances are negated, so that larger always means more similar.
        The result is a torch tensor if one of the two is, otherwise a NumPy array with a tensor's methods
        (`grilly.numbers.Numbers`), where sentence-transformers returns a tensor.

        Example:
            >>> a, b = model.encode(["A cat.", "A kitten."]), model.encode(["A cat."])
            >>> scores = model.similarity(a, b)
            >>> scores.shape, bool(scores[0, 0] > scores[1, 0])
            ((2, 1), True)
        """
        return self._similarities[self.similarity_fn_name][0](embeddings1, embeddings2)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Similarity of row i of the first to row i of the second: `(N, D)` twice gives `(N,)`, as `similarity` does.

        Example:
            >>> a = model.encode(["A cat.", "A kitten."])
            >>> model.similarity_pairwise(a, a).round(3).tolist()
            [1.0, 1.0]
        """
        return self._similarities[self.similarity_fn_name][1](embeddings1, embeddings2)


@closed("truncate_dim")
class Settings(Similar):
    """A loaded model of one vector per text, with its settings."""

    kept = (*Similar.kept, "truncate_dim", "pooling_type", "normalize")

    def _load(self, arguments: ModelArguments, options: Options | None = None) -> None:
        given = arguments.truncate_dim if isinstance(arguments, SentenceArguments) else None
        truncate_dim = None if given is None else positive(given, "truncate_dim")
        super()._load(arguments, options)
        self.truncate_dim: int | None = self._core.settings["truncate_dim"] if truncate_dim is None else truncate_dim
        modules = self._core.modules
        self.pooling_type = next((settings for name, settings in modules if name == "Pooling"), "none")
        self.normalize = any(name == "Normalize" for name, _ in modules)

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

    @older_name("truncate_embeddings", FutureWarning)
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

    def set_pooling_include_prompt(self, include_prompt: bool) -> None:
        """Sets whether the prompt's own tokens are pooled with the text's; INSTRUCTOR models want False.

        Example:
            >>> model.set_pooling_include_prompt(True)
        """
        self._include(bool(include_prompt))

    def _columns(self) -> int:
        return min(super()._columns(), self.truncate_dim or super()._columns())

    def _pool(self, modes: tuple[str, ...]) -> None:
        super()._pool(modes)
        self.pooling_type = "+".join(modes)
