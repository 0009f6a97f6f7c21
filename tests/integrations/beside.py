"""Texts, and the bound between two engines."""

import numpy as np

DOCUMENTS = [
    "The cat sat on the mat and looked at the rain.",
    "Stocks fell sharply on Monday after the central bank raised its rates.",
    "Photosynthesis turns light, water and carbon dioxide into sugar and oxygen.",
    "A passport that has expired is renewed at the town hall.",
    "The harbour froze over in January.",
    "Bread rises because yeast makes carbon dioxide.",
]
QUERY = "How do plants make sugar?"


#: Of weights of words, as in tests/live/test_words.py.
OF_WORDS = 1e-5


def near(found, expected, bound=3e-6):
    """Whether two float32 engines differ by no more than their rounding, relative to numbers above 1."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    return (np.abs(found - expected) / np.maximum(1, np.abs(expected))).max() <= bound
