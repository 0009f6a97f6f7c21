"""Tests of the command `grilly`."""

#: Of these the first two are alike, and the last repeats the first.
TEXTS = [
    "A cat sleeps on the stove.",
    "A kitten naps by the fire.",
    "Interest rates rose in March.",
    "A cat sleeps on a stove.",
]
