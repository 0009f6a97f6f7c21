"""The walk over `fixtures/settings.json` beside sentence-transformers, and the list beside its source."""

import ast
import copy
import inspect
import json
import textwrap

import numpy as np
import pytest
import sentence_transformers
import transformers
from models import settings
from sentence_transformers.base.modules import Dense, Normalize, Router, Transformer
from sentence_transformers.sentence_transformer.modules import Dropout, LayerNorm, Pooling
from sentence_transformers.sparse_encoder.modules import SpladePooling
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

import grilly

ROWS = [row for row in settings.rows() if row[2] != "refused"]


def theirs(kind):
    return getattr(sentence_transformers, kind)


def distance(one, other) -> float:
    pairs = list(zip(one, other, strict=True))
    if any(left.shape != right.shape for left, right in pairs):
        return float("inf")
    scale = max(1.0, *(np.abs(right.astype(np.float64)).max() for _, right in pairs[1:]))
    return max(np.abs(left.astype(np.float64) - right.astype(np.float64)).max() for left, right in pairs) / scale


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    return settings.before(theirs, tmp_path_factory.mktemp("before"))


@pytest.mark.parametrize("file, key, effect, name, value", ROWS)
def test_the_effect_is_theirs(before, tmp_path, file, key, effect, name, value):
    folder = settings.build(name, tmp_path / "model")
    arguments = settings.change(folder, file, key, value)
    expected = settings.results(theirs, name, folder, copy.deepcopy(arguments))
    found = settings.results(lambda kind: getattr(grilly, kind), name, folder, arguments)
    narrow = value == "bfloat16"
    assert distance(found, expected) < (3e-2 if narrow else 1e-5)
    moved = distance(before(name), expected)
    assert moved > 1e-5 if effect == "honoured" else moved < 1e-5


# The list.


def listed(*files: str) -> set[str]:
    """The keys of files, each part of a path."""
    table = json.loads(settings.LIST.read_text(encoding="utf-8"))
    keys = [key for file, keys in table.items() if file.partition("#")[0] in files for key in keys]
    return {part for key in keys for part in key.split("/")}


def read_of(variables: set[str], *functions) -> set[str]:
    """The constant keys that functions read of variables: `x["key"]`, `x.get("key")`, `x.pop("key")`, `"key" in x`."""
    found = set()
    for function in functions:
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                if getattr(node.func.value, "id", "") in variables and node.func.attr in ("get", "pop", "setdefault"):
                    found.add(getattr(node.args[0], "value", None))
            elif isinstance(node, ast.Subscript) and getattr(node.value, "id", "") in variables:
                found.add(getattr(node.slice, "value", None))
            elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In):
                if getattr(node.comparators[0], "id", "") in variables:
                    found.add(getattr(node.left, "value", None))
    return {key for key in found if isinstance(key, str)}


def parameters(function) -> set[str]:
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    found = inspect.signature(function).parameters.values()
    return {each.name for each in found if each.kind not in kinds} - {"self", "cls"}


@pytest.mark.parametrize(
    "module, files",
    [
        (Transformer, ["sentence_bert_config.json"]),
        (Pooling, ["1_Pooling/config.json"]),
        (Dense, ["2_Dense/config.json"]),
        (LayerNorm, ["3_LayerNorm/config.json"]),
        (Normalize, ["4_Normalize/config.json"]),
        (Dropout, ["5_Dropout/config.json"]),
        (SpladePooling, ["1_SpladePooling/config.json"]),
        (Router, ["router_config.json"]),
    ],
)
def test_every_setting_of_a_module_is_listed(module, files):
    # The modules themselves, which are those of the types.
    made = {"sub_modules"}
    assert (parameters(module.__init__) - made) | set(module.config_keys) | set(module.config_key_renames) <= listed(
        *files
    )


def test_every_setting_of_a_model_is_listed():
    base = sentence_transformers.SentenceTransformer.__mro__[1:]
    classes = [sentence_transformers.SentenceTransformer, sentence_transformers.CrossEncoder, *base]
    classes.append(sentence_transformers.SparseEncoder)
    parsers = [vars(each)["_parse_model_config"] for each in classes if "_parse_model_config" in vars(each)]
    loader = sentence_transformers.SentenceTransformer._load_config_modules
    assert read_of({"model_config"}, loader, *parsers) | {"model_type"} <= listed("config_sentence_transformers.json")
    assert read_of({"module_config"}, loader) <= listed("modules.json")


#: Of transformers' own calls of themselves, and what other readers of the same arguments take first.
INTERNAL = {
    "_commit_hash",
    "_from_auto",
    "_from_pipeline",
    "__type",
    "_json_padding",
    "_json_truncation",
    "from_pipeline",
}


def test_every_argument_of_the_weights_reader_is_listed():
    found = read_of({"kwargs"}, PreTrainedModel.from_pretrained) | parameters(PreTrainedModel.from_pretrained)
    missing = found - INTERNAL - {"pretrained_model_name_or_path"} - listed("sentence_bert_config.json") - MODEL_ONLY
    assert not missing


#: They say where and how the weights are held, or are for transformers' own readers; the table in Rust has them.
MODEL_ONLY = {
    "adapter_kwargs", "adapter_name", "allow_all_kernels", "config", "device_map", "device_mesh", "disable_mmap",
    "distributed_config", "experts_implementation", "force_download", "fusion_config", "generation_config",
    "kernel_config", "max_memory", "offload_buffers", "offload_folder", "proxies", "tp_plan", "tp_size", "tqdm_class",
    "use_kernels",
}  # fmt: skip


def test_every_setting_of_a_tokenizer_is_listed():
    found = read_of(
        {"kwargs", "init_kwargs"},
        PreTrainedTokenizerBase.__init__,
        PreTrainedTokenizerBase._from_pretrained,
        PreTrainedTokenizerBase.from_pretrained,
        PreTrainedTokenizerFast.__init__,
        AutoTokenizer.from_pretrained,
    ) | set(PreTrainedTokenizerBase.SPECIAL_TOKENS_ATTRIBUTES)
    known = listed("sentence_bert_config.json", "tokenizer_config.json", "SentenceTransformer()")
    assert not found - INTERNAL - known - TOKENIZER_ONLY


#: Objects of Python, which no file holds, and arguments that the table in Rust refuses or has without effect.
TOKENIZER_ONLY = {
    "_spm_precompiled_charsmap", "code_revision",
    "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output",
    "config", "files_loaded", "merges", "model_specific_special_tokens", "post_processor", "proxies", "tokenizer",
    "tokenizer_object", "tokenizer_padding", "tokenizer_truncation", "vocab",
}  # fmt: skip


def test_versions():
    """The list is of these."""
    assert sentence_transformers.__version__.startswith("6.2.") and transformers.__version__ == "5.24.0"
