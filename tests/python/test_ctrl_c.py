"""Ctrl-C ends long calls: a child process sends SIGINT to itself in the middle of one, and measures when it is out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import LONG, need_vulkan

ROOT = Path(__file__).parent.parent

START = """
import copy, json, os, shutil, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import numpy as np
import grilly
from grilly import functional, kernels, util
from grilly.program import Graph
from models import families, heads
folder, device = Path(sys.argv[2]), sys.argv[3]
TINY = families.FIXTURES / "tiny-bert"

def interrupted(name, call, after=0.5):
    at = []
    def interrupt():
        at.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    timer = threading.Timer(after, interrupt)
    timer.start()
    try:
        call()
        timer.cancel()
        timer.join()
    except KeyboardInterrupt:
        print(name, time.monotonic() - at[0], flush=True)
    else:
        print(name, "was not long enough", flush=True)

def changed(name, source=TINY, **keys):
    shutil.copytree(source, folder / name)
    file = folder / name / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | keys))
    return folder / name
"""

#: Code of children by name: each calls `interrupted` some times.
CODES = {
    "loading": """
# Weights whose header has many tensors, a vocabulary of many tokens, many layers.
many = changed("many")
nothing = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
head = json.dumps({f"tensor.{number}": nothing for number in range(500000)})
(many / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head.encode())
load = lambda place: grilly.SentenceTransformer(place, device=device)
interrupted("header", lambda: load(many))
words = changed("words")
file = words / "tokenizer.json"
tokens = json.loads(file.read_text())
tokens["model"]["vocab"] |= {f"word{number}": number for number in range(len(tokens["model"]["vocab"]), 1500000)}
file.write_text(json.dumps(tokens))
interrupted("tokenizer", lambda: load(words))
layers = families.build("albert", folder / "layers")
file = layers / "config.json"
file.write_text(json.dumps(json.loads(file.read_text()) | {"num_hidden_layers": 5000}))
interrupted("layers", lambda: load(layers), 0.3)
model = load(TINY)
assert model.encode("a text").shape
""",
    "texts": """
texts = ["the world of a child " * 2000] * 20000
model = grilly.SentenceTransformer(TINY, device=device)
rows = model.encode(["a text"])
interrupted("encode", lambda: model.encode(texts))
interrupted("tokens", lambda: model.tokenizer(texts))
assert model.encode(["a text"]).tobytes() == rows.tobytes()
interrupted("convert", lambda: [grilly.quant.convert(copy.copy(model), "w1.58a8") for _ in range(10000)])
""",
    "search": """
rows, others = np.zeros((6000, 16384), np.float32), np.zeros((6000, 16384), np.float32)
sizes = {"query_chunk_size": 6000, "score_function": util.dot_score}
interrupted("semantic_search", lambda: util.semantic_search(rows, others, **sizes))
interrupted("paraphrase_mining", lambda: util.paraphrase_mining_embeddings(rows, **sizes))
many = np.random.default_rng(1).normal(size=(60000, 32)).astype(np.float32)
interrupted("community_detection", lambda: util.community_detection(many))
interrupted("similarity", lambda: util.cos_sim(rows, others))
""",
    "arrays": """
size, wide = 3000, 40000
x = grilly.to_vulkan(np.full((size, size), 1e-3, np.float32), device)
def chain():
    y = x
    for _ in range(10000):
        y = functional.matmul(y, x)
    return y.numpy()
interrupted("chain", chain)
def one():
    y = grilly.to_vulkan(np.zeros((size, wide), np.float32), device)
    return functional.matmul(functional.matmul(x, y), np.zeros((wide, size), np.float32)).numpy()
interrupted("one call", lambda: [one() for _ in range(100)], 1)
assert abs(functional.matmul(x, x).numpy()[0, 0] - size * 1e-6) < 1e-6
graph = Graph()
given = y = graph.input("x", (size // 2, size // 2))
for _ in range(60):
    y = graph.call("matmul", y, given)
program = graph.program([y], device)
small = np.full((size // 2, size // 2), 1e-4, np.float32)
interrupted("program", lambda: [program.run(small)[0].numpy() for _ in range(100)])
""",
    # What was submitted is computed; the process ends before that.
    "device": """
x = grilly.to_vulkan(np.full((300, 300), 1e-3, np.float32), device)
def chain():
    y = x
    for _ in range(10**6):
        y = functional.matmul(y, x)
    return y.numpy()
interrupted("chain", chain)
""",
    "graphs": """
def large(count):
    graph = Graph()
    x = y = graph.input("x", (2, 4))
    for _ in range(count):
        y = graph.call("activation", y, kind="silu")
    return graph, x, y
interrupted("building", lambda: large(10**7))
graph, x, y = large(50000)
interrupted("program", lambda: [graph.program([y], device) for _ in range(1000)])
def gradients():
    while True:
        graph.gradients(y, graph.filled(1.0, (2, 4)), [x])
interrupted("gradients", gradients)
""",
    "export": """
model = grilly.SentenceTransformer(TINY, device="cpu")
def exports():
    for number in range(100000):
        model.export("wgsl", folder / "site", overwrite=True)
interrupted("model", exports)
assert not list((folder / "site").rglob("*.unfinished"))
def every_kernel():
    while True:
        for target in ("spirv", "wgsl", "msl", "hlsl", "cuda"):
            for name, *_ in grilly._core.kernel_rows():
                kernels.get(name).compile(target)
interrupted("kernels", every_kernel)
def saves():
    while True:
        model.save_pretrained(folder / "saved")
interrupted("save_pretrained", saves)
assert not list((folder / "saved").glob(".saving-*"))
""",
    "pairs": """
ranker = grilly.CrossEncoder(heads.build("scores", "bert", folder / "ranker"), device=device)
texts = ["the world of a child " * 50] * 20000
interrupted("predict", lambda: ranker.predict([("a way", text) for text in texts]))
interrupted("rank", lambda: ranker.rank("a way", texts))
sparse = grilly.SparseEncoder(heads.build("words", "bert", folder / "words"), device=device)
interrupted("sparse", lambda: sparse.encode(texts))
""",
}

#: With `make test-long`: gigabytes that are read and copied.
LARGE = {
    "large": """
from models import safetensors_file
large = changed("large", vocab_size=1 << 24)
head, end = {}, 0
for name, array in safetensors_file.read(TINY / "model.safetensors").items():
    shape = [1 << 24, array.shape[1]] if "word" in name else list(array.shape)
    size = 4 * int(np.prod(shape))
    head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + size]}
    end += size
text = json.dumps(head).encode()
with open(large / "model.safetensors", "wb") as file:
    file.write(len(text).to_bytes(8, "little") + text)
    file.truncate(8 + len(text) + end)
interrupted("rounding", lambda: [grilly.SentenceTransformer(large, device=device, model_kwargs={"dtype": "int8"})] * 9)
with grilly.SentenceTransformer(large, device="cpu") as model:
    interrupted("saving", lambda: [model.save_pretrained(folder / "saved") for _ in range(9)])
"""
}
#: What waits for a device.
ON_VULKAN = [pytest.param(name, "vulkan", marks=pytest.mark.vulkan) for name in ("texts", "device")]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no SIGINT so")
@pytest.mark.parametrize(
    "name, device", [*((name, "cpu") for name in CODES | (LARGE if LONG else {}) if name != "device"), *ON_VULKAN]
)
def test_ctrl_c_ends_long_calls(tmp_path, name, device):
    if device == "vulkan":
        need_vulkan()
    command = [sys.executable, "-c", START + (CODES | LARGE)[name], str(ROOT), str(tmp_path), device]
    environment = os.environ | {"GRILLY_DEBUG": "0", "OPENBLAS_NUM_THREADS": "1"}
    found = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert found.returncode == 0, found.stdout + found.stderr
    lines = [line.rsplit(" ", 1) for line in found.stdout.splitlines()]
    # Two seconds on an idle machine.
    assert lines and all(float(seconds) < 5 for _, seconds in lines), found.stdout
