"""Tensors that a checkpoint holds beside those of its encoder: skipped and told, or refused as another form's."""

import logging
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from models import families, heads, safetensors_file
from models.golden import same_bits
from models.spoil import rewrite

from grilly import CrossEncoder, SentenceTransformer, SparseEncoder
from grilly.errors import ModelFormatError, WeightsError

TABLE = families.table()
NAMES = list({row["files"]["config.json"]["model_type"]: name for name, row in reversed(TABLE.items())}.values())
NAMES += ["electra-equal", "jina-bert", "jina-lora", "nomic_bert-hub", "nomic_bert-moe"]
TEXTS = ["a dog and the time of a year", "way"]
# What published checkpoints hold of other modules: heads, ColBERT's and SimCSE's projections, buffers, trainers' rests.
OTHERS = {
    "linear.weight": np.ones((4, 36), np.float32),
    "mlp.dense.weight": np.ones((36, 36), np.float32),
    "mlp.dense.bias": np.ones(36, np.float32),
    "lm_head.weight": np.ones((3, 36), np.float32),
    "cls.predictions.decoder.bias": np.ones(7, np.float32),
    "cls.seq_relationship.weight": np.ones((2, 36), np.float32),
    "vocab_transform.weight": np.ones((36, 36), np.float32),
    "pooler.dense.weight": np.ones((36, 36), np.float32),
    "score.weight": np.ones((1, 36), np.float32),
    "classifier.out_proj.bias": np.ones(2, np.float32),
    "position_ids": np.arange(40).reshape(1, 40),
    "rotary_emb.inv_freq": np.ones(6, np.float32),
    "optimizer.state.0.exp_avg": np.ones((2, 2), np.float32),
    "temperature": np.ones((), np.float32),
    "num_batches_tracked": np.ones((), np.int64),
}


def encode(folder: Path) -> np.ndarray:
    with SentenceTransformer(str(folder), device="cpu") as model:
        return model.encode(TEXTS, normalize_embeddings=False)


def told(caplog) -> list[str]:
    """The names that records of level info tell."""
    records = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    found = [re.fullmatch(r".*: the model does not read (.*)", text) for text in records]
    lists = [match[1].split(", ") for match in found if match]
    assert len(lists) <= 1
    return lists[0] if lists else []


def prefix(tensors) -> str:
    """What a class with a head puts before the names of its encoder."""
    table = re.compile(r"(.*?)(embeddings\.)?(word_embeddings|tok_embeddings|embed_tokens|wte|embed_in|shared)\.")
    return next(match[1] for name in tensors if (match := table.match(name)))


@pytest.mark.parametrize("name", NAMES)
def test_tensors_of_other_modules_are_skipped_and_told(tmp_path, caplog, name):
    folder = families.build(name, tmp_path)
    caplog.set_level(logging.INFO, logger="grilly")
    expected = encode(folder)
    before = told(caplog)
    caplog.clear()
    own = safetensors_file.read(folder / "model.safetensors")
    pooler = f"{prefix(own)}pooler.dense.bias"
    more = OTHERS | {pooler: np.ones(36, np.float32), f"{prefix(own)}embeddings.position_ids": np.arange(40)[None]}
    more = {name: array for name, array in more.items() if name not in own}
    rewrite(folder, lambda tensors: tensors.update(more))
    assert same_bits(encode(folder), expected)
    assert sorted(told(caplog)) == sorted({*before, *more})


LAYER = re.compile(r"((?:\w+\.)*?(?:layers?|h|block|albert_layer_groups))\.(\d+)\.(.+)\.weight")


@pytest.mark.parametrize("name", NAMES)
def test_what_tells_another_form_is_refused(tmp_path, name):
    """A layer more, and in a layer biases that the form lacks, a norm and an expert."""
    folder = families.build(name, tmp_path)
    own = safetensors_file.read(folder / "model.safetensors")
    layers = [match for each in own if not each.startswith("decoder.") and (match := LAYER.fullmatch(each))]
    start, part = layers[0][1], layers[0][3]
    added = [f"{start}.{max(int(match[2]) for match in layers) + 1}.{part}.weight"]
    added += [f"{start}.0.{part}.bias" for part in ("surprise_norm", "mlp.experts.9.w1", "attention.q_norm")]
    added += [f"{match[1]}.{match[2]}.{match[3]}.bias" for match in layers if "_global" not in match[3]]
    added = [each for each in added if each not in own]
    rewrite(folder, lambda tensors: tensors.update(dict.fromkeys(added, np.ones((6, 2), np.float32))))
    with pytest.raises(WeightsError, match="with other tensors|these are tensors of") as caught:
        encode(folder)
    text = str(caught.value)
    assert "missing" not in text
    for each in added:
        assert f"stored as {each})" in text or f"unexpected {each} [" in text, each


@pytest.mark.parametrize(
    ("name", "added"),
    [
        ("roberta", "roberta.encoder.layer.0.attention.self.distance_embedding.weight"),
        ("roberta", "encoder.relative_attention_bias.weight"),
        ("roberta", "roberta.embeddings.embed_proj.weight"),
        ("roberta", "mpnet.encoder.layer.0.attention.attn.q.weight"),
        ("deberta-v2", "deberta.encoder.conv.conv.weight"),
        ("jina-bert", "bert.embeddings.position_embeddings.weight"),
        ("electra-equal", "embeddings_project.bias"),
        ("electra-equal", "electra.embeddings_project.weight"),
        ("llama", "layers.0.post_feedforward_layernorm.weight"),
        ("llama", "layers.0.self_attn.q_norm.weight"),
        ("llama", "norm.bias"),
        ("llama", "layers.0.self_attn.q_proj.weight_scale"),
        ("gpt2", "transformer.ln_f.extra"),
        ("modernbert", "layers.0.attn_norm.weight"),
        ("t5", "encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight"),
    ],
)
def test_parts_of_relatives(tmp_path, name, added):
    folder = families.build(name, tmp_path)
    rewrite(folder, lambda tensors: tensors.update({added: np.ones((4, 4), np.float32)}))
    with pytest.raises(WeightsError, match=f"unexpected .*{re.escape(added.rpartition('.')[0].split('.')[-1])}"):
        encode(folder)


def test_a_second_name_of_what_is_read(tmp_path):
    folder = families.build("roberta", tmp_path)
    name = "encoder.layer.0.output.dense.bias"
    rewrite(folder, lambda tensors: tensors.update({name: np.ones(36, np.float32)}))
    with pytest.raises(ModelFormatError, match=f"two tensors are called {name}: stored as {name} and roberta.{name}"):
        encode(folder)


def test_modules_have_no_tensors_left_over(checkpoint, tmp_path):
    """sentence-transformers refuses them, too."""
    folder = Path(shutil.copytree(checkpoint("dense_two"), tmp_path / "model"))
    part = next(path for path in sorted(folder.iterdir()) if "Dense" in path.name)
    rewrite(part, lambda tensors: tensors.update({"other.weight": np.ones(3, np.float32)}))
    with pytest.raises(WeightsError, match=f"unexpected {part.name}/other.weight"):
        encode(folder)


def test_heads_that_nothing_reads(tmp_path, caplog):
    folder = heads.build("scores", "bert", tmp_path)
    caplog.set_level(logging.INFO, logger="grilly")
    rewrite(folder, lambda tensors: tensors.update({"cls.predictions.bias": np.ones(3, np.float32)}))
    CrossEncoder(str(folder), device="cpu").close()
    assert told(caplog) == ["cls.predictions.bias"]
    caplog.clear()
    encode(folder)
    assert {"classifier.weight", "cls.predictions.bias"} < set(told(caplog))
    rewrite(folder, lambda tensors: tensors.update({"classifier.scale": np.ones(3, np.float32)}))
    with pytest.raises(WeightsError, match="unexpected classifier.scale"):
        CrossEncoder(str(folder), device="cpu")
    encode(folder)


def test_a_table_of_words_that_a_head_is_tied_to_is_read(tmp_path, caplog):
    folder = heads.build("words", "bert", tmp_path)
    caplog.set_level(logging.INFO, logger="grilly")
    SparseEncoder(str(folder), device="cpu").close()
    assert not any(name.startswith("cls.predictions.") for name in told(caplog))
