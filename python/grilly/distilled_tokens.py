"""The tokenizer of a distilled model: that of the model it is made of, with fewer special tokens and more words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from grilly import _core
from grilly.closed import closed
from grilly.errors import InvalidArgumentError, UnsupportedError
from grilly.inputs import logger

__all__ = ["Distilled", "distilled_tokens"]

Json = dict[str, Any]
NO_WORDS = "words cannot be added to a tokenizer that merges pairs (BPE): leave vocabulary out"


@closed()
@dataclass(frozen=True)
class Distilled:
    """The tokens of a distilled model, by the numbers of their rows.

    Attributes:
        tokens: All of them.
        new: Those that the model did not have; of others the vector is that of the token itself.
        unknown: The token that stands for unknown words, or None.
        file: tokenizer.json.
    """

    tokens: list[str]
    new: frozenset[str]
    unknown: str | None
    file: bytes


def distilled_tokens(
    file: str,
    roles: dict[str, str],
    around: Iterable[str],
    words: Sequence[str],
    removed: re.Pattern[str] | None,
    longest: int | None,
) -> Distilled:
    """The tokens that model2vec makes of a tokenizer and a vocabulary.

    Added tokens of the model are left out but for those of unknown words and of padding. A word that the tokenizer's
    pre-tokenizer keeps whole becomes a token of its model, any other an added token.

    Args:
        file: The contents of the model's tokenizer.json.
        roles: Its special tokens by role.
        around: The tokens that it puts around a text.
        words: What is added.
        removed: Tokens at whose start it matches are left out.
        longest: Tokens of a text; None for no limit.

    Raises:
        UnsupportedError: Words for a tokenizer of BPE, or a kind of tokenizer that is not known.
        InvalidArgumentError: No token is left.

    Source: model2vec 0.10, `clean_and_create_vocabulary`.
    """
    data: Json = json.loads(file)
    model = data["model"]
    pieces = stored(model)
    held = {token for token, _ in pieces}
    fewest = min((score for _, score in pieces), default=0.0)
    added = [token["content"] for token in sorted(data["added_tokens"], key=lambda token: int(token["id"]))]
    pieces += [(token, fewest) for token in added if token not in held]
    unknown, padding = roles.get("unk_token") or unknown_of(model, pieces), roles.get("pad_token")
    kept = {unknown, padding}
    # What the model's own vocabulary counts as: the tokens around a text are in it, and are no words.
    seen = {token for token, _ in pieces if token not in added or token in kept or token in set(around)}
    prefix_spaces(data["pre_tokenizer"])
    new, phrases, dropped = divided(json.dumps(data), words, seen, removed)
    if (new or phrases) and model["type"] == "BPE":
        raise UnsupportedError(f"vocabulary: {NO_WORDS}")
    left = [
        (token, score)
        for token, score in pieces
        if (token not in added or token in kept)
        and token not in dropped
        and (token == unknown or removed is None or not removed.match(token))
    ]
    found = [*left, *((token, fewest) for token in [*new, *phrases])]
    if all(token == unknown for token, _ in found):
        raise InvalidArgumentError("no token is left: token_remove_pattern matches all of them")
    store(model, found, unknown)
    numbers = {token: number for number, (token, _) in enumerate(found)}
    special = [added_token(token, numbers[token], special=True) for token in kept if token in numbers]
    phrase = [added_token(token, numbers[token], special=False) for token in phrases]
    limit = {"direction": "Right", "max_length": longest, "strategy": "LongestFirst", "stride": 0}
    data |= {"post_processor": None, "padding": None, "truncation": None if longest is None else limit}
    data["added_tokens"] = sorted([*special, *phrase], key=lambda token: int(token["id"]))
    text = json.dumps(data, ensure_ascii=False).encode()
    return Distilled([token for token, _ in found], frozenset([*new, *phrases]), unknown, text)


def stored(model: Json) -> list[tuple[str, float]]:
    """The pieces of a tokenizer's model by their numbers, with their scores, 0 for those without."""
    kind = model.get("type")
    if kind == "Unigram":
        return [(token, float(score)) for token, score in model["vocab"]]
    if kind in ("WordPiece", "WordLevel", "BPE"):
        return [(token, 0.0) for token in sorted(model["vocab"], key=model["vocab"].__getitem__)]
    raise UnsupportedError(f"tokenizer.json: model.type {kind!r}: known are BPE, Unigram, WordLevel and WordPiece")


def store(model: Json, pieces: list[tuple[str, float]], unknown: str | None) -> None:
    """Replaces the pieces of a tokenizer's model, the merges of those that are gone, and the number of the unknown."""
    numbers = {token: number for number, (token, _) in enumerate(pieces)}
    if model["type"] == "Unigram":
        model["vocab"] = [[token, score] for token, score in pieces]
        model["unk_id"] = None if unknown is None else numbers[unknown]
        return
    if model["type"] == "BPE":
        merges = [merge.split(" ", 1) if isinstance(merge, str) else merge for merge in model["merges"]]
        model["merges"] = [[a, b] for a, b in merges if {a, b, a + b} <= numbers.keys()]
    model["vocab"] = numbers


def unknown_of(model: Json, pieces: list[tuple[str, float]]) -> str | None:
    """The token of unknown words of a tokenizer's model."""
    place = model.get("unk_id")
    named: str | None = model.get("unk_token")
    return named if place is None else pieces[place][0]


def prefix_spaces(pre_tokenizer: Json | None) -> None:
    """Lets the first word of a text begin with a space, where a pre-tokenizer of bytes tells such words apart."""
    for part in parts(pre_tokenizer):
        if part["type"] == "ByteLevel":
            part["add_prefix_space"] = True
            return


def parts(pre_tokenizer: Json | None) -> Iterator[Json]:
    """A pre-tokenizer, or those of a sequence."""
    if pre_tokenizer is not None and pre_tokenizer["type"] == "Sequence":
        for part in pre_tokenizer["pretokenizers"]:
            yield from parts(part)
    elif pre_tokenizer is not None:
        yield pre_tokenizer


def divided(
    file: str, words: Sequence[str], seen: set[str], removed: re.Pattern[str] | None
) -> tuple[list[str], list[str], set[str]]:
    """The words that become tokens of the tokenizer's model, or added tokens, and pieces that go for the latter."""
    new, phrases, dropped = dict[str, None](), dict[str, None](), set[str]()
    for word, (text, pieces) in zip(words, _core.pieces(file, list(words)), strict=True):
        if not text or not pieces:
            logger.warning("vocabulary: %r is left out: nothing is left of it when it is normalised", word)
        elif len(pieces) > 1:
            dropped |= {word} & seen
            phrase = text.strip()
            if phrase in seen - dropped:
                logger.warning("vocabulary: %r is a token of the model already", word)
            else:
                phrases[phrase] = None
        elif pieces[0] not in seen and not (removed and removed.match(pieces[0])):
            new[pieces[0]] = None
    return list(new), [phrase for phrase in phrases if phrase not in new], dropped


def added_token(content: str, number: int, *, special: bool) -> Json:
    """An added token as tokenizer.json has it; words of several pieces are looked for in the normalised text."""
    strips = not special
    return {
        "id": number, "content": content, "single_word": False, "lstrip": strips, "rstrip": strips,
        "normalized": not special, "special": special,
    }  # fmt: skip
