"""The keys of config.json that the reference reads, for each form of `src/model/arch/keys.json`.

Run with an environment of `scripts/requirements/live.txt`, it prints each key that the table lacks and each that it
names and nothing reads; with `--write` it adds the former as "new", to be sorted into the kinds by hand, and takes
the latter out:

    python scripts/reference_keys.py [--write]

Read are the fields and the `attribute_map` of a form's configuration class, the arguments that it takes beyond them,
and every `config.x`, `getattr(config, "x")` and `config.get("x")` of the code that its model classes reach. What
loading, masks, rotary positions and sentence-transformers read is the same for every form: the form "all". Where the
code of a form is a repository's, or ours, the committed reference of tests/fixtures and the keys of its fixtures
stand in for it.
"""

import ast
import functools
import importlib
import inspect
import json
import re
import sys
import textwrap
from dataclasses import fields
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "src/model/arch/keys.json"
KINDS = ("honoured", "only", "idle")
WIDTH = 128
# Code that runs for every form, by module.
ALL = {
    "transformers.configuration_utils": ["PreTrainedConfig"],
    "transformers.core_model_loading": ["convert_and_load_state_dict_in_model"],
    "transformers.masking_utils": ["create_causal_mask", "create_bidirectional_mask"],
    "transformers.modeling_utils": ["PreTrainedModel"],
    "transformers.models.auto.auto_factory": ["_BaseAutoModelClass"],
    "transformers.models.auto.configuration_auto": ["AutoConfig"],
    "transformers.utils.generic": ["merge_with_config_defaults"],
    "transformers.utils.output_capturing": ["capture_outputs"],
    "sentence_transformers.base.modules.transformer": ["Transformer"],
    "sentence_transformers.cross_encoder.model": ["CrossEncoder"],
    "sentence_transformers.sentence_transformer.model": ["SentenceTransformer"],
}
ROTARY = ("transformers.modeling_rope_utils", ["RotaryEmbeddingConfigMixin", "ROPE_INIT_FUNCTIONS"])
# Forms without a class in transformers: the committed reference, and the fixtures whose keys its code reads.
OWN = {
    "jina-bert": ("jina_bert", ["jina-bert"]),
    "liquid_moe": ("nomic_moe", ["liquid_moe"]),
    "new": ("", ["new"]),
    "nomic_bert-hub": ("nomic_moe", ["nomic_bert-hub", "nomic_bert-moe"]),
    "xlm-roberta-flash": ("jina_lora", ["jina-lora"]),
}
# Names in that code which are no keys: what classes take from callers, methods, and parts of other modalities.
NO_KEYS = re.compile(
    r"^_|^(self|args|kwargs|get|update|pop|items|copy|setdefault|json|to_\w+|from_\w+|save_\w+|validate\w*|get_\w+|convert_\w+|"
    r"standardize_\w+|nested_\w+|expand_\w+|register_\w+|default_theta|is_heterogeneous|hf_quantizer|sub_configs|"
    r"base_model_(tp|pp|ep|fsdp)_plan|quant_method|is_composition|attribute_map|(text|vision|audio|encoder|decoder)_config|"
    r"vision_\w+|encoder|num_features|mm_tokens_per_image|image_token_id|embedding_dim|projection_dim|feature_\w+)$"
)


def is_config(node: ast.AST) -> bool:
    """Whether an expression is a configuration, by its name."""
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name in ("config", "text_config", "effective_config")


def called(node: ast.Call) -> tuple[str, ast.AST | None]:
    """The name of what is called, and what is asked: the first argument, or what the method is of."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr, node.func.value
    return (node.func.id, node.args[0] if node.args else None) if isinstance(node.func, ast.Name) else ("", None)


def keys_of(tree: ast.AST, own: bool = False) -> set[str]:
    """The keys that code reads of configurations; code of a configuration class also of `self` and of its arguments."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_config(node.value):
            found.add(node.attr)
        elif isinstance(node, ast.Call) and node.args:
            name, asked = called(node)
            constants = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
            given = own and isinstance(asked, ast.Name) and asked.id in ("self", "kwargs")
            if name in ("getattr", "hasattr", "get", "pop") and (is_config(asked) or given):
                found |= {value for value in constants[:1] if isinstance(value, str)}
    return {key for key in found if not NO_KEYS.match(key)}


@functools.cache
def parsed(code) -> ast.AST:
    return ast.parse(textwrap.dedent(inspect.getsource(code)))


def reached(module, names: list[str]) -> list:
    """The functions and classes that these names reach in their module."""
    queue, found = [getattr(module, name) for name in names], []
    while queue:
        code = queue.pop()
        code = inspect.unwrap(code) if callable(code) else code
        if isinstance(code, dict):
            queue += code.values()
        known = inspect.isclass(code) or inspect.isfunction(code)
        if not known or code in found or code.__module__ != module.__name__:
            continue
        found.append(code)
        queue += [getattr(module, node.id, None) for node in ast.walk(parsed(code)) if isinstance(node, ast.Name)]
    return found


def read_by(module: str, names: list[str]) -> set[str]:
    found = reached(importlib.import_module(module), names)
    return set().union(*(keys_of(parsed(code), own=module == ROTARY[0]) for code in found))


def of_class(config: type) -> set[str]:
    """What a configuration class has as fields beyond those of all classes, and what its code reads."""
    from transformers import PreTrainedConfig

    found = {field.name for field in fields(config)} - {field.name for field in fields(PreTrainedConfig)}
    for base in config.__mro__:
        if base.__module__.startswith("transformers.models"):
            tree = parsed(base)
            own = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
            found |= {node.attr for node in own if isinstance(node.value, ast.Name) and node.value.id == "self"}
            found |= keys_of(tree, own=True)
            found |= {name for name, value in vars(base).items() if isinstance(value, property) and value.fset}
    return {key for key in found if not NO_KEYS.match(key)}


def of_model_type(model_type: str) -> tuple[set[str], dict[str, str]]:
    """The keys that transformers reads for a `model_type`, and its other names for keys."""
    from transformers import (
        CONFIG_MAPPING,
        MODEL_FOR_MASKED_LM_MAPPING,
        MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING,
        MODEL_MAPPING,
    )

    config = CONFIG_MAPPING[model_type]
    found = of_class(config)
    if "rope_parameters" in found:
        found |= read_by(*ROTARY) | {"rope_theta", "rope_scaling", "partial_rotary_factor"}
    for mapping in (MODEL_MAPPING, MODEL_FOR_MASKED_LM_MAPPING, MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING):
        models = mapping.get(config, ())
        for model in models if isinstance(models, tuple) else (models,):
            found |= read_by(model.__module__, [model.__name__])
    return found, dict(config.attribute_map)


def of_fixtures(form: str) -> set[str]:
    """The keys of the fixtures of a form whose code is a repository's or ours."""
    table = json.loads((ROOT / "tests/fixtures/families.json").read_text(encoding="utf-8"))
    return set().union(*(table[name]["files"]["config.json"] for name in OWN[form][1]))


def of_all() -> set[str]:
    """The keys that are read for every form."""
    from transformers import GenerationConfig, PreTrainedConfig

    found = set().union(*(read_by(module, names) for module, names in ALL.items()))
    found |= {field.name for field in fields(PreTrainedConfig)} | set(GenerationConfig._get_default_generation_params())
    found |= keys_of(ast.parse(textwrap.dedent(inspect.getsource(PreTrainedConfig.__post_init__))), own=True)
    return {key for key in found | {"auto_map", "model_type", "quantization_config"} if not NO_KEYS.match(key)}


def stated(entry: dict) -> set[str]:
    return set().union(*(entry.get(kind, ()) for kind in (*KINDS, "new")))


def differences(table: dict) -> dict[str, tuple[set[str], set[str]]]:
    """For each form the keys that are read and have no kind, and those that have one and are not read."""
    all_found, of_every = of_all(), stated(table["all"])
    result = {}
    for form, entry in table.items():
        if form == "all":
            found, names = all_found, {}
        elif form in OWN:
            found, names = of_fixtures(form), {}
        else:
            found, names = of_model_type(form)
        lacks = found - stated(entry) - set(names) - (set() if form == "all" else of_every)
        # The fixtures have some of the keys of their code.
        beyond = (
            set()
            if form in OWN
            else stated(entry) - found - all_found - set(entry.get("marks", ())) - set(table["all"]["marks"])
        )
        wrong = {
            f"{name}: {names.get(name)}"
            for name in names | entry.get("names", {})
            if names.get(name) != entry.get("names", {}).get(name)
        }
        result[form] = (lacks | wrong, beyond)
    return result


def written(table: dict) -> str:
    """The table as JSON, lists in lines of a width."""

    def lines(value, indent: int) -> str:
        flat = json.dumps(value, ensure_ascii=False)
        if not isinstance(value, list | dict) or len(flat) + indent < WIDTH - 20 and indent:
            return flat
        space = " " * (indent + 2)
        if isinstance(value, dict):
            inner = [f"{json.dumps(key)}: {lines(item, indent + 2)}" for key, item in value.items()]
            return "{\n" + ",\n".join(space + item for item in inner) + "\n" + " " * indent + "}"
        text = textwrap.fill(
            ", ".join(json.dumps(item) for item in value), WIDTH, initial_indent=space, subsequent_indent=space
        )
        return "[\n" + text + "\n" + " " * indent + "]"

    return lines(table, 0) + "\n"


def main() -> int:
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    found = differences(table)
    for form, (lacks, beyond) in found.items():
        for kind, keys in (("lacks", lacks), ("has beyond what is read", beyond)):
            if keys:
                print(f"{form} {kind}: {', '.join(sorted(keys))}")
    if "--write" in sys.argv[1:]:
        for form, (lacks, beyond) in found.items():
            entry = table[form]
            for kind in entry.keys() & set(KINDS):
                keys = entry[kind]
                kept = [key for key in keys if key not in beyond]
                entry[kind] = kept if isinstance(keys, list) else {key: keys[key] for key in kept}
            if lacks:
                entry["new"] = sorted(lacks)
        TABLE.write_text(written(table), encoding="utf-8")
    return any(lacks or beyond for lacks, beyond in found.values())


if __name__ == "__main__":
    sys.exit(main())
