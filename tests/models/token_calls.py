"""Calls of a tokenizer: method, arguments and options; `fixtures/token_calls.json` has transformers' results."""

import json
from pathlib import Path

from . import families

FIXTURES = Path(__file__).parent.parent / "fixtures"
TABLE = FIXTURES / "token_calls.json"
# One checkpoint for each tokenizer.
NAMES = {row["tokenizer"]: name for name, row in reversed(families.table().items()) if "tokenizer" in row}
TEXTS = ["The harbour  froze over.", "", "Lemons 🍋 aren't sour, [MASK] <mask> </s>", "Été 我喜欢"]
CALLS = [
    ("__call__", [TEXTS], {"return_offsets_mapping": True, "return_special_tokens_mask": True}),
    ("__call__", [TEXTS, TEXTS[::-1]], {"truncation": True, "max_length": 11, "return_token_type_ids": True}),
    ("__call__", [TEXTS], {"padding": True, "padding_side": "left", "pad_to_multiple_of": 4}),
    ("__call__", [TEXTS[2]], {"max_length": 7, "stride": 2, "return_overflowing_tokens": True, "return_length": True}),
    ("__call__", [["The", "harbour", "froze"]], {"is_split_into_words": True, "return_offsets_mapping": True}),
    ("encode", [TEXTS[0]], {"add_special_tokens": False}),
    ("encode", [TEXTS[2]], {"truncation": "do_not_truncate", "max_length": 2**32}),
    ("tokenize", [TEXTS[2]], {}),
    ("decode", [list(range(0, 60, 3))], {}),
    ("decode", [list(range(0, 60, 3))], {"skip_special_tokens": True, "clean_up_tokenization_spaces": True}),
    ("convert_tokens_to_ids", [["a", "no such token"]], {}),
    ("convert_ids_to_tokens", [[0, 7, 10**6]], {}),
    ("num_special_tokens_to_add", [True], {}),
]
ATTRIBUTES = ["all_special_tokens", "special_tokens_map", "vocab_size", "pad_token_id", "padding_side"]


def results(tokenizer) -> list:
    """The result of each call, then the attributes, in JSON's types."""
    found = [getattr(tokenizer, method)(*arguments, **options) for method, arguments, options in CALLS]
    found = [dict(result) if hasattr(result, "keys") else result for result in found]
    return json.loads(json.dumps([*found, *(getattr(tokenizer, name) for name in ATTRIBUTES)]))
