"""Texts cut into parts that a model reads whole: paragraphs, joined or divided at sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from grilly.closed import closed

__all__ = ["Cutter", "Part", "paragraphs"]

#: Tokens of a part at most, also of a model that reads more: a long part has one vector for many subjects.
MOST = 256
SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]]*\s+|[。！？]")


@closed()
class Part(NamedTuple):
    """A text, and the line that it begins in."""

    line: int
    text: str


def paragraphs(text: str) -> list[Part]:
    """What blank lines divide, with the first line of each.

    Example:
        >>> from grilly.commands.cutting import paragraphs
        >>> paragraphs("A cat.\\nIt sleeps.\\n\\nSnow.")
        [Part(line=1, text='A cat.\\nIt sleeps.'), Part(line=4, text='Snow.')]
    """
    found: list[Part] = []
    held: list[str] = []
    for number, line in enumerate([*text.replace("\r\n", "\n").split("\n"), ""], start=1):
        if line.strip():
            held.append(line)
        elif held:
            found.append(Part(number - len(held), "\n".join(held)))
            held = []
    return found


@closed()
class Cutter:
    """Cuts for a model: parts of at most its `max_seq_length` tokens, of `MOST` if it reads more.

    Args:
        model: A model with a tokenizer.

    Example:
        >>> from grilly.commands.cutting import Cutter, paragraphs
        >>> cutter = Cutter(model)
        >>> [part.line for part in cutter.cut(paragraphs("A cat sleeps. " * 100 + "\\n\\nSnow."))]
        [1, 1, 3]
    """

    def __init__(self, model: Any) -> None:
        self._tokenizer = model.tokenizer
        around = len(self._tokenizer.encode(model._prompt(None, None, "document")))
        self.limit = int(max(min(model.max_seq_length, MOST) - around, 8))

    def cut(self, parts: Sequence[Part]) -> Iterator[Part]:
        """The parts of a document's paragraphs; each begins with a paragraph, or in one that is longer than a part.

        Paragraphs are joined until they have half of the tokens, so that a heading stays with what it is of. No token
        has less than a byte: short documents need no tokenizer.
        """
        if not parts:
            return
        whole = "\n".join([part.text for part in parts])
        if len(whole.encode(errors="replace")) < self.limit:
            yield Part(parts[0].line, whole)
            return
        held: list[str] = []
        first = size = 0
        for starts, part, tokens in self._units(parts):
            if held and (size + tokens > self.limit or (starts and size >= self.limit // 2)):
                yield Part(first, "".join(held).strip())
                held, size = [], 0
            if not held:
                first = part.line
            held.append(f"\n{part.text}" if starts else part.text)
            size += tokens
        if held:
            yield Part(first, "".join(held).strip())

    def _units(self, parts: Sequence[Part]) -> Iterator[tuple[bool, Part, int]]:
        """What is never divided: whether it starts a paragraph, the text, its tokens."""
        for part, tokens in zip(parts, self._tokens(parts), strict=True):
            if tokens <= self.limit:
                yield True, part, tokens
                continue
            sentences = _divided(part, [match.end() for match in SENTENCE_END.finditer(part.text)])
            for place, (sentence, count) in enumerate(zip(sentences, self._tokens(sentences), strict=True)):
                for number, (unit, size) in enumerate(self._halves(sentence, count)):
                    yield not place and not number, unit, size

    def _halves(self, part: Part, tokens: int) -> Iterator[tuple[Part, int]]:
        """A sentence, or the halves of one that is too long, divided between words where there are any."""
        if tokens <= self.limit or len(part.text) < 2:
            yield part, tokens
            return
        middle = len(part.text) // 2
        space = part.text.rfind(" ", 0, middle)
        halves = _divided(part, [space + 1 if space > middle // 2 else middle])
        for half, count in zip(halves, self._tokens(halves), strict=True):
            yield from self._halves(half, count)

    def _tokens(self, parts: Sequence[Part]) -> list[int]:
        """How many tokens each has, without those around a text."""
        if not parts:
            return []
        ids = self._tokenizer([part.text for part in parts], add_special_tokens=False)["input_ids"]
        return [len(row) for row in ids]


def _divided(part: Part, ends: Sequence[int]) -> list[Part]:
    """A part divided at some places, with the line of each piece."""
    found: list[Part] = []
    line, start = part.line, 0
    for end in [*(end for end in ends if end < len(part.text)), len(part.text)]:
        text = part.text[start:end]
        found.append(Part(line, text))
        line, start = line + text.count("\n"), end
    return found
