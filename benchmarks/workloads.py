"""Texts of known length, the same on every machine: common words, each one token of BERT's uncased vocabulary."""

import random
from collections.abc import Iterator

WORDS = (
    "time year people way day man thing woman life child world school state family student group country problem hand "
    "part place case week company system program question work government number night point home water room mother "
    "area money story fact month lot right study book eye job word business issue side kind head house service friend "
    "father power hour game line end member law car city community name the of and to in is it that was for on are as "
    "with his they at be this have from or one had by not but what all were when we there can an your which their said "
    "if do will each about how up out them then she many some so these would other into has more her two like him see"
).split()


def one_by_one(count: int, fewest: int, most: int, seed: int) -> Iterator[str]:
    """`count` texts of `fewest` to `most` words, evenly spread."""
    source = random.Random(seed)
    return (" ".join(source.choices(WORDS, k=source.randint(fewest, most))) for _ in range(count))


def texts(count: int, fewest: int, most: int, seed: int) -> list[str]:
    """The same in a list."""
    return list(one_by_one(count, fewest, most, seed))


def short(count: int) -> list[str]:
    """5 to 40 words: 24.5 tokens on average."""
    return texts(count, 5, 40, seed=1)


def long(count: int) -> list[str]:
    """184 to 270 words: about 227 tokens on average once cut at 256."""
    return texts(count, 184, 270, seed=2)


def equal(count: int, tokens: int) -> list[str]:
    """Texts of exactly `tokens` tokens, the two special ones included."""
    return texts(count, tokens - 2, tokens - 2, seed=3)
