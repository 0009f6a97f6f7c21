"""A user's `attention-output` in every family: it runs in `encode` and `decode_states`, or registering warns."""

from pathlib import Path

import numpy as np
import pytest
from conftest import LONG, need_vulkan
from models import families, family_reference, heads
from models.golden import per_text, same_bits
from models.reference import pool

from grilly import CrossEncoder, ShaderCompiler, ShaderCompilerConfig, VulkanSentenceTransformer
from grilly.backend import shader_registry
from grilly.errors import NotFiniteError

TABLE = families.table()
FLOAT32 = 1e-5  # max|a-b| / max|b|, as in tests/models/test_families.py
SHADERS = Path(__file__).parents[2] / "shaders"
#: The architecture under which shaders of a model_type are registered, where it has another name.
ARCHITECTURES = {"gpt2": "gpt", "gpt_neox": "gpt", "mt5": "t5"}
ARCHITECTURES |= dict.fromkeys(("gemma2", "mistral", "qwen2", "qwen3"), "llama")
#: On lavapipe one of each kind: causal, by the last token, rotary in part, grouped, windows, norms of heads, capped,
#: windows for some layers, biases by distance, ALiBi, and what stays fused.
KINDS = "gpt2 gpt2-matrix gpt_neox llama mistral qwen3 gemma2 modernbert mpnet t5 jina-bert deberta-v2".split()
FEW = slice(None, None, 5)  # of the texts: from one token to the longest

OWN = (SHADERS / "attention" / "attention-output.glsl").read_text(encoding="utf-8")
TILE = (SHADERS / "include" / "attention-output-tile.glsl").read_text(encoding="utf-8")
#: grilly's generic shader, its results times FACTOR.
COPY = OWN.replace('#include "attention-output-tile.glsl"', TILE).replace("= result[i]", "= FACTOR * result[i]")
COPY = COPY.replace("#version 460\n", "#version 460\n#extension GL_GOOGLE_include_directive : require\n")
#: The same, infinite where a weight of a key that a causal model with a window hides is not exactly zero.
STRICT = COPY.replace(
    "return mix(quad, vec4(0.0), bvec4(!there));\n}\n\n// values",
    """for (uint j = 0u; j < 4u; j++) {
        bool hidden = key + j > row || (WINDOW > 0u && row - key - j > WINDOW);
        quad[j] = hidden && quad[j] != 0.0 ? 1.0 / 0.0 : quad[j];
    }
    return mix(quad, vec4(0.0), bvec4(!there));
}

// values""",
)


def pairs():
    for name in TABLE:
        yield pytest.param(name, "cpu", id=f"{name}-cpu")
    for name in TABLE if LONG else KINDS:
        yield pytest.param(name, "vulkan", id=f"{name}-vulkan", marks=pytest.mark.vulkan)


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(families.FIXTURES / "families.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """For all tests: most register the same text."""
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture
def register(tmp_path, compiled):
    """`register(name, text, FACTOR=2.0)`: the text in place of `attention-output` for a fixture's architecture."""
    made = []

    def place(name, text=COPY, **defines) -> str:
        model_type = TABLE[name]["files"]["config.json"]["model_type"]
        made.append(ARCHITECTURES.get(model_type, model_type))
        (tmp_path / "mine.glsl").write_text(text, encoding="utf-8")
        given = {"FACTOR": 1.0} | defines
        compiler = ShaderCompiler(ShaderCompilerConfig(tmp_path, cache_directory=compiled, defines=given))
        shader_registry.register_architecture_shader("attention-output", made[-1], "mine", compiler=compiler)
        return made[-1]

    yield place
    for architecture in made:
        shader_registry.unregister("attention-output", architecture)


def relative(found, expected) -> float:
    return float(np.abs(found.astype(np.float64) - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("name, device", list(pairs()))
def test_it_runs_in_encode_or_registering_says_so(name, device, golden, register, tmp_path, caplog):
    if device == "vulkan":
        need_vulkan()
    config = TABLE[name]["files"]["config.json"]
    with caplog.at_level("WARNING", logger="grilly"):
        register(name)
    warned = "attention-output is registered for" in caplog.text
    assert warned == (
        f"attention of {config['model_type']} models stays fused (its scores have terms by" in caplog.text
    )
    folder = families.build(name, tmp_path)
    texts = [str(text) for text in golden["texts"]][FEW]
    with VulkanSentenceTransformer(folder, device=device, dtype="float32") as model:
        assert model.backend == device
        lines = model.plan.splitlines()
        outcomes = [line for line in lines if line.startswith("split: ")]
        ops = [line.split()[1] for line in lines if line[:3].strip().isdigit()]
        reason = f"a shader of the user is registered for attention-output, {config['model_type']}: mine"
        if warned:
            assert len(outcomes) == ops.count("attention") > 0 and "attention_output" not in ops
            assert all(line.startswith("split: declined at layer ") for line in outcomes)
            assert all(line.endswith(f"content, although {reason}") for line in outcomes)
            assert "stays fused (its scores have terms by distance and content), although " in caplog.text
        else:
            assert all(line.startswith("split: done at layer ") for line in outcomes)
            assert all(line.endswith(f": {reason}") for line in outcomes)
            assert ops.count("attention_output") == len(outcomes) > 0 and "attention" not in ops
            assert "stays fused" not in caplog.text
        found = model.encode(texts, normalize_embeddings=False)
        assert relative(found, golden[f"{name}/rows"][FEW]) <= FLOAT32
        alone = np.stack([model.encode(text, normalize_embeddings=False) for text in texts])
        assert same_bits(alone, found), "a text has the same bits in any batch"


@pytest.mark.parametrize("name", family_reference.REFERENCES)
def test_what_it_changes_is_what_the_numbers_say(name, device, golden, register, tmp_path):
    """Twice the weighted sums of every layer, against NumPy in float64; the CPU computes what the operation means."""
    folder = families.build(name, tmp_path)
    reference, pooling = family_reference.REFERENCES[name]
    ids, width = per_text(golden[f"{name}/ids"])[FEW], golden[f"{name}/rows"].shape[1]

    def expected(factor: float) -> np.ndarray:
        model = reference(folder, factor)
        return np.stack([pool(pooling, model(np.array(text)), 0) if text else np.zeros(width) for text in ids])

    # Rotary frequencies are float32 numbers in transformers and not here.
    assert relative(expected(1.0), golden[f"{name}/rows"][FEW]) <= 1e-6
    assert register(name, FACTOR=2.0) in ("gpt", "llama", "t5")
    texts = [str(text) for text in golden["texts"]][FEW]
    with VulkanSentenceTransformer(folder, device=device, dtype="float32") as model:
        found = model.encode(texts, normalize_embeddings=False)
    assert relative(found, expected(2.0 if device == "vulkan" else 1.0)) <= FLOAT32
    assert (relative(found, golden[f"{name}/rows"][FEW]) > 0.1) == (device == "vulkan")


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_decode_states_runs_it(device, golden, register, tmp_path, factor):
    """In attention of T5's decoder to its own tokens and to the encoder's states, whose lengths differ."""
    config = TABLE["t5"]["files"]["config.json"]
    folder = families.build("t5", tmp_path)
    register("t5", FACTOR=factor)
    ids = per_text(golden["t5/ids"])
    pairs = [(text, other) for text, other, is_shifted in golden["t5/pairs"] if is_shifted]
    assert len({(len(ids[text]), len(ids[other])) for text, other in pairs}) > 5
    rows = sum(len(ids[other]) for _, other in pairs)  # of the goldens, whose pairs that are not shifted are the last
    pairs += pairs[:2] + pairs[:1]  # some have the same lengths
    texts, others = ([str(golden["texts"][pair[place]]) for pair in pairs] for place in (0, 1))
    with VulkanSentenceTransformer(folder, device=device, dtype="float32") as model:
        found = model.decode_states(texts, others)
        alone = [model.decode_states(*pair) for pair in zip(texts, others)]
        lines = model.decoder_plan.splitlines()
    assert all(same_bits(*each) for each in zip(found, alone))
    reason = "a shader of the user is registered for attention-output, t5: mine"
    layers, kinds = range(config["num_decoder_layers"]), ("attention", "cross-attention")
    done = [f"split: done at layer {layer} {kind}: {reason}" for layer in layers for kind in kinds]
    assert [line for line in lines if line.startswith("split: ")] == done
    assert "in groups of texts of one length S and S0" in lines

    def expected(factor: float) -> list[np.ndarray]:
        reference, start = family_reference.T5(folder, factor), config["decoder_start_token_id"]
        return [reference.decode(ids[text], [start, *ids[other][:-1]]) for text, other in pairs]

    numbers = np.concatenate(found)
    usual = np.concatenate(expected(1.0))
    assert relative(usual[:rows], golden["t5/states"][:rows]) <= 1e-6
    assert relative(numbers, np.concatenate(expected(factor)) if device == "vulkan" else usual) <= FLOAT32
    assert (relative(numbers, usual) > 0.1) == (device == "vulkan" and factor != 1.0)


@pytest.mark.parametrize("name", ["gpt2", "mistral"])
def test_weights_of_hidden_keys_are_exactly_zero(vulkan, name, golden, register, tmp_path):
    assert STRICT != COPY
    register(name, STRICT)
    texts = [str(text) for text in golden["texts"]][FEW]
    with VulkanSentenceTransformer(families.build(name, tmp_path), dtype="float32") as model:
        assert ("attention_bias" in model.plan) == (name == "mistral")
        found = model.encode(texts, normalize_embeddings=False)
    assert relative(found, golden[f"{name}/rows"][FEW]) <= FLOAT32


def test_weights_of_keys_that_are_seen_are_not(vulkan, golden, register, tmp_path):
    """What the test above relies on: the shader tells of a weight that is not zero."""
    register("t5", STRICT)
    text = max(map(str, golden["texts"]), key=len)
    with VulkanSentenceTransformer(families.build("t5", tmp_path), dtype="float32") as model:
        with pytest.raises(NotFiniteError):
            model.encode(text)


def test_pairs_are_computed_whole(device, register, tmp_path):
    """Parts of attention have texts of one length: what pairs begin with is then not computed apart."""
    folder = heads.build("scores", "qwen3-logits", tmp_path)
    pairs = [("a dog", "the cat"), ("a dog", "the cat and rain"), ("a dog", "")]
    found = []
    for is_registered in (False, True):
        if is_registered:
            register("qwen3")
        with CrossEncoder(folder, device=device, dtype="float32") as model:
            assert ("attention_output" in model.plan, "key rows" in model.plan) == (is_registered, not is_registered)
            found.append(model.predict(pairs))
            assert same_bits(np.stack([model.predict(pair) for pair in pairs]), found[-1])
    assert relative(found[1], found[0]) <= FLOAT32
