"""What a model shares with its tokenizer, and the tokens of that: ids and special tokens."""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from grilly import _core
from grilly.closed import closed
from grilly.errors import InvalidArgumentError, InvalidTypeError
from grilly.inputs import as_int, need_type

__all__ = ["Held", "TokenizerSettings", "UNLIMITED", "Vocabulary", "as_ids"]


# The core's limit for a table of token vectors, which has none.
UNLIMITED = 2**31 - 1


@closed()
@dataclass(eq=False, repr=False)
class TokenizerSettings:
    """What callers changed on a tokenizer; None for what its files say."""

    padding_side: str | None = None
    truncation_side: str | None = None
    pad_token: str | None = None
    cleans_up: bool | None = None

    def changed(self) -> dict[str, str | bool]:
        """What was changed, by its key in tokenizer_config.json."""
        keys = {"cleans_up": "clean_up_tokenization_spaces"}
        return {keys.get(name, name): value for name, value in vars(self).items() if value is not None}


@closed()
@dataclass(eq=False, repr=False)
class Held:
    """A model's current core and its settings; users hold this instead of the model, to avoid reference cycles."""

    core: _core.EmbeddingModel = field(init=False)
    #: Gives the model, or None when it is gone.
    model: Callable[[], Any] = field(kw_only=True)
    #: The model's name as it was given.
    name: str = ""
    #: The limit of tokens that was set; None for the model's own.
    limit: int | None = None
    #: Cores on other devices, by device.
    elsewhere: dict[str, _core.EmbeddingModel] = field(default_factory=dict)
    settings: TokenizerSettings = field(default_factory=TokenizerSettings)
    #: Held while the core, or a setting of all cores, changes.
    swap: threading.RLock = field(default_factory=threading.RLock)

    def cores(self) -> list[_core.EmbeddingModel]:
        """The cores of all routes, which read tokens with the same tokenizer."""
        return [self.core, *self.elsewhere.values()]

    def set_limit(self, limit: int) -> None:
        """Changes the limit of tokens."""
        with self.swap:
            for core in self.cores():
                core.set_max_seq_length(limit)
            self.limit = limit

    def set_truncation_side(self, side: str) -> None:
        """Changes the end at which long texts are truncated."""
        with self.swap:
            for core in self.cores():
                core.tokenizer.set_truncation_side(side)
            self.settings.truncation_side = side


# Roles of special tokens, in the reference's order.
ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


def of_role(role: str) -> property:
    """The token of a role, or None."""
    return property(lambda self: self._roles().get(role), doc=f"The `{role}`, or None.")


def id_of_role(role: str) -> property:
    """The id of the token of a role, or None."""
    return property(lambda self: self._id(self._roles().get(role)), doc=f"The id of the `{role}`, or None.")


@closed()
class Vocabulary:
    """The vocabulary of a tokenizer, with the names and results of transformers' tokenizers."""

    pad_token_type_id = property(lambda self: 0, doc="The segment of padding: 0.")
    is_fast = property(lambda self: True, doc="True: the tokenizers library computes the tokens.")

    def __init__(self, held: Held) -> None:
        self._held = held

    @property
    def _inner(self) -> _core.Tokenizer:
        return self._held.core.tokenizer

    # -------------------------------------------------------------------------------------------------- special tokens

    def _roles(self) -> dict[str, str]:
        """Special tokens by role."""
        found = dict(self._inner.described()[0])
        if self._held.settings.pad_token is not None:
            found["pad_token"] = self._held.settings.pad_token
        return {role: found[role] for role in dict.fromkeys([*ROLES, *found]) if role in found}

    def _id(self, token: str | None) -> int | None:
        return None if token is None else self._ids([token])[0]

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            role = name.removesuffix("_id")
            roles = self._roles()
            if role in roles:
                return roles[role] if name == role else self._id(roles[role])
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def pad_token(self) -> str | None:
        """The padding token, or None; may be set to another token of the vocabulary."""
        return self._roles().get("pad_token")

    @pad_token.setter
    def pad_token(self, value: str) -> None:
        need_type(value, str, "pad_token", "str")
        if self._inner.ids_of([value]) == [None]:
            raise InvalidArgumentError(f"pad_token is {value!r}, expected a token of the vocabulary")
        self._held.settings.pad_token = value

    @property
    def pad_token_id(self) -> int | None:
        """The id of the padding token, or None; may be set."""
        return self._id(self.pad_token)

    @pad_token_id.setter
    def pad_token_id(self, value: int) -> None:
        token = self.convert_ids_to_tokens(as_int(value, "pad_token_id"))
        if token is None:
            raise InvalidArgumentError(f"pad_token_id is {value}, expected the id of a token")
        self.pad_token = token

    @property
    def special_tokens_map(self) -> dict[str, str]:
        """Special tokens by role."""
        return self._roles()

    @property
    def extra_special_tokens(self) -> list[str]:
        """Special tokens without a role."""
        return self._inner.described()[1]

    @property
    def extra_special_tokens_ids(self) -> list[int | None]:
        """Ids of the special tokens without a role."""
        return self._ids(self.extra_special_tokens)

    @property
    def all_special_tokens(self) -> list[str]:
        """Every special token once, those with a role first."""
        return list(dict.fromkeys([*self._roles().values(), *self.extra_special_tokens]))

    @property
    def all_special_ids(self) -> list[int | None]:
        """Ids of `all_special_tokens`."""
        return self._ids(self.all_special_tokens)

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        """Special tokens around a text, or those of a pair.

        Example:
            >>> model.tokenizer.num_special_tokens_to_add(), model.tokenizer.num_special_tokens_to_add(pair=True)
            (2, 3)
        """
        return self._inner.around(pair)

    def get_special_tokens_mask(
        self, token_ids_0: Any, token_ids_1: Any = None, already_has_special_tokens: bool = False
    ) -> list[int]:
        """1 for each id that is a special token, else 0; of ids with their special tokens only, as in the reference.

        Example:
            >>> model.tokenizer.get_special_tokens_mask([101, 7592, 102], already_has_special_tokens=True)
            [1, 0, 1]
        """
        if not already_has_special_tokens or token_ids_1 is not None:
            raise InvalidArgumentError(
                "expected one list of ids with its special tokens, and already_has_special_tokens=True; "
                "tokenizer(text, return_special_tokens_mask=True) gives the mask of a text"
            )
        special = set(self.all_special_ids)
        return [int(number in special) for number in as_ids(token_ids_0, "token_ids_0")]

    # ------------------------------------------------------------------------------------------------------ vocabulary

    @property
    def vocab_size(self) -> int:
        """Tokens without those added to the model's pieces; `len(tokenizer)` counts all."""
        return self._inner.size(False)

    def __len__(self) -> int:
        return self._inner.size(True)

    def __bool__(self) -> bool:
        return True

    def get_vocab(self) -> dict[str, int]:
        """Every token with its id.

        Example:
            >>> model.tokenizer.get_vocab()["[SEP]"]
            102
        """
        return self._inner.vocabulary()

    @property
    def vocab(self) -> dict[str, int]:
        """The same as `get_vocab()`."""
        return self.get_vocab()

    def get_added_vocab(self) -> dict[str, int]:
        """Tokens that were added to the model's pieces, with their ids.

        Example:
            >>> model.tokenizer.get_added_vocab()["[PAD]"]
            0
        """
        return {token: number for number, token in self._inner.added()}

    @property
    def added_tokens_encoder(self) -> dict[str, int]:
        """The same as `get_added_vocab()`."""
        return self.get_added_vocab()

    def convert_tokens_to_ids(self, tokens: Any) -> Any:
        """The id of a token, or a list of ids of a list of tokens; that of the unknown token for others.

        Example:
            >>> model.tokenizer.convert_tokens_to_ids(["hello", "hellohello"])
            [7592, 100]
        """
        return self._ids([tokens])[0] if isinstance(tokens, str) else self._ids(list(tokens))

    def _ids(self, tokens: list[str]) -> list[int | None]:
        found = self._inner.ids_of(tokens)
        if None not in found:
            return found
        unknown = self._roles().get("unk_token")
        unknown_id = None if unknown is None else self._inner.ids_of([unknown])[0]
        return [unknown_id if number is None else number for number in found]

    def convert_ids_to_tokens(self, ids: Any, skip_special_tokens: bool = False) -> Any:
        """The token of an id, or a list of tokens of ids; None for an id that no token has.

        Example:
            >>> model.tokenizer.convert_ids_to_tokens([101, 7592, 102], skip_special_tokens=True)
            ['hello']
        """
        numbers = as_ids(ids, "ids")
        if isinstance(ids, int):
            return self._held.core.tokens_of(numbers)[0]
        left_out = set(self.all_special_ids) if skip_special_tokens else set()
        return self._held.core.tokens_of([number for number in numbers if number not in left_out])


# The padding token may be set.
for _role in (role for role in ROLES if role != "pad_token"):
    setattr(Vocabulary, _role, of_role(_role))
    setattr(Vocabulary, f"{_role}_id", id_of_role(_role))


def as_ids(ids: Any, name: str) -> list[int]:
    """An id, or a list, an array or a tensor of ids, as a list."""
    given = ids.tolist() if hasattr(ids, "tolist") else ids
    given = [given] if isinstance(given, int) else given
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InvalidTypeError(f"{name} is of type {type(ids).__name__}, expected ids")
    numbers = [as_int(number, f"{name}[{place}]") for place, number in enumerate(given)]
    for place, number in enumerate(numbers):
        if not 0 <= number < 2**32:
            raise InvalidArgumentError(f"{name}[{place}] is {number}, expected an id of at least 0")
    return numbers
