"""Keys of published configurations in a family's checkpoint: those that change no number there change none here.

`fixtures/published.json` holds copies of public texts, each with its source: a file of a repository, or a text that
quotes one. BigBird, BitNet, GTE and Jina v3 (both formats) have none: no public copy was found.
"""

import json

import pytest
from models import families
from models.golden import same_bits
from models.spoil import change_json

from grilly import VulkanSentenceTransformer

TEXTS = ["a dog and the time of a year", "way"]
COPIES = json.loads((families.FIXTURES / "published.json").read_text(encoding="utf-8"))
PUBLISHED = {name: copy["config"] for name, copy in COPIES.items()}
TABLE = json.loads((families.FIXTURES.parents[1] / "src/model/arch/keys.json").read_text(encoding="utf-8"))
# The checkpoint of each published configuration's form.
FORMS = {row["files"]["config.json"]["model_type"]: name for name, row in reversed(families.table().items())}
CHECKPOINTS = {name: FORMS[config["model_type"]] for name, config in PUBLISHED.items() if config["model_type"] in FORMS}
CHECKPOINTS |= {"jina-embeddings-v2-base-en": "jina-bert", "nomic-embed-text-v1.5": "nomic_bert-hub"}
CHECKPOINTS |= {"bge-m3": "xlm-roberta", "all-distilroberta-v1": "roberta"}


def notes(name: str) -> dict:
    """The keys of a published configuration that are neither its checkpoint's nor change numbers."""
    forms = [TABLE[form] for form in (PUBLISHED[name]["model_type"], "all")]
    matter = {key for form in forms for kind in ("honoured", "only", "names") for key in form.get(kind, ())}
    stated = families.table()[CHECKPOINTS[name]]["files"]["config.json"]
    known = (matter - {"auto_map"}) | stated.keys()
    return {key: value for key, value in PUBLISHED[name].items() if key not in known}


def encoded(folder):
    with VulkanSentenceTransformer(folder, device="cpu") as model:
        return model.encode(TEXTS)


@pytest.mark.parametrize("name", [name for name in PUBLISHED if name in CHECKPOINTS and notes(name)])
def test_notes_of_published_configurations_change_no_bit(name, tmp_path):
    folder = families.build(CHECKPOINTS[name], tmp_path)
    expected = encoded(folder)
    change_json(folder / "config.json", **notes(name))
    assert same_bits(encoded(folder), expected)
