"""Sizes of a caller or a file that memory does not hold are refused with the numbers, and the process goes on."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import need_vulkan

ROOT = Path(__file__).parent.parent
LIMIT = 2 << 30

START = """
import json, os, resource, shutil, sys
limit, root, folder, device = sys.argv[1:]
if limit == "addresses":
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
sys.path.insert(0, root)
from pathlib import Path
import numpy as np
import grilly
from grilly import errors, functional, nn, quant, util, utils
from grilly.program import Graph
from models import families
folder = Path(folder)
TINY = families.FIXTURES / "tiny-bert"

def memory(name, call):
    # Both numbers: what was asked for, and what there is.
    try:
        call()
    except errors.DeviceMemoryError as error:
        text = str(error)
        known = " bytes are available" in text or " are available at once" in text or "may take" in text
        print(name, "refused" if known and "out of memory allocating " in text else text, flush=True)
    else:
        print(name, "was done", flush=True)

def typed(name, call, kind=errors.GrillyError):
    try:
        call()
    except kind:
        print(name, "refused", flush=True)
    else:
        print(name, "was done", flush=True)

def wide(*shape, dtype=np.float32):
    return np.broadcast_to(np.zeros((), dtype), shape)

def load(place):
    return grilly.SentenceTransformer(place, device=device)
"""

#: Code of children by name.
CODES = {
    "models": """
def changed(name, family=None, **keys):
    if family is None:
        shutil.copytree(TINY, folder / name)
    else:
        families.build(family, folder / "built").rename(folder / "moved")
        (folder / "moved").rename(folder / name)
    file = folder / name / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | keys))
    return folder / name

def sparse(place, shapes):
    # A safetensors file that holds zeros, and takes no room.
    head, end = {}, 0
    for name, shape in shapes.items():
        size = 4 * int(np.prod(shape))
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(head).encode()
    with open(place / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)

most = 1 << 20
memory("rotary", lambda: load(changed("rotary", "llama", hidden_size=most, num_attention_heads=1, num_key_value_heads=1,
                                      head_dim=most, max_position_embeddings=most)))
memory("slopes", lambda: load(changed("slopes", "jina-bert", hidden_size=most, num_attention_heads=most,
                                      max_position_embeddings=most)))
typed("words", lambda: load(changed("words", vocab_size=1 << 28, hidden_size=most)), errors.WeightsError)
typed("layers", lambda: load(changed("layers", num_hidden_layers=10000)), errors.WeightsError)
typed("too many", lambda: load(changed("too many", num_hidden_layers=2**31)), errors.ModelFormatError)
columns, inner = 4096, most
place = changed("matching", hidden_size=columns, intermediate_size=inner)
shapes = {}
from models import safetensors_file
sizes = {32: columns, 64: inner}
for name, array in safetensors_file.read(place / "model.safetensors").items():
    kept = "position" in name or "word" in name
    shapes[name] = [array.shape[0], *[columns] * (array.ndim - 1)] if kept else [sizes.get(n, n) for n in array.shape]
sparse(place, shapes)
memory("matching", lambda: load(place))
lying = changed("lying")
text = json.dumps({"a": {"dtype": "F32", "shape": [2**62, 2**62], "data_offsets": [0, 4]}}).encode()
(lying / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + b"0000")
typed("lying shape", lambda: load(lying), errors.ModelFormatError)
(lying / "model.safetensors").write_bytes((2**60).to_bytes(8, "little") + text)
typed("lying header", lambda: load(lying), errors.ModelFormatError)
values = changed("values")
(values / "config.json").write_text('{"model_type": "bert", "x": [' + "0," * 49_000_000 + "0]}")
if limit == "addresses":
    memory("values", lambda: load(values))
""",
    "vocabularies": """
def with_tokens(name, change):
    shutil.copytree(TINY, folder / name)
    file = folder / name / "tokenizer.json"
    tokens = json.loads(file.read_text())
    change(tokens)
    file.write_text(json.dumps(tokens))
    return folder / name

def use(place):
    with load(place) as model:
        model.encode("a text"), len(model.tokenizer), model.tokenizer.get_vocab()
        model.tokenizer.convert_ids_to_tokens([5])
        if limit == "addresses":  # a large machine has the gigabytes of a list of the ids between
            model.export("wgsl", place / "site")
        model.save_pretrained(place / "saved")

for number in (2**31, 2**32 - 1):
    added = {"id": number, "content": "far", "special": True}
    added |= dict.fromkeys(["single_word", "lstrip", "rstrip", "normalized"], False)
    for name, change in (("added", lambda t: t["added_tokens"].append(added)),
                         ("token", lambda t: t["model"]["vocab"].update(far=number))):
        try:
            use(with_tokens(f"{name} {number}", change))
        except errors.GrillyError:
            pass
        print(name, "refused", flush=True)
with open(with_tokens("sparse", lambda t: None) / "tokenizer.json", "ab") as file:
    file.truncate(40 << 30)
memory("file", lambda: load(folder / "sparse"))
""",
    "checkpoints": """
import zipfile
utils.save_checkpoint(model_state={"w": np.ones(3, np.float32)}, filepath=folder / "small.npz")
with zipfile.ZipFile(folder / "small.npz") as small, open(folder / "large.npz", "wb") as file:
    with zipfile.ZipFile(file, "w") as large:
        for info in small.infolist():
            if info.filename != "0.npy":
                large.writestr(info.filename, small.read(info))
        head = np.lib.format.magic(1, 0)
        about = repr({"descr": "<f4", "fortran_order": False, "shape": (10 << 30,)}).ljust(117).encode() + b"\\n"
        info = zipfile.ZipInfo("0.npy")
        info.file_size = info.compress_size = (40 << 30) + 128
        info.header_offset, info.CRC = large.start_dir, 0
        file.seek(large.start_dir)
        file.write(info.FileHeader(zip64=True) + head + len(about).to_bytes(2, "little") + about)
        file.seek(40 << 30, 1)
        large.filelist.append(info)
        large.NameToInfo[info.filename] = info
        large.start_dir = file.tell()
        large._didModify = True
memory("array", lambda: utils.load_checkpoint(folder / "large.npz"))
packed = folder / "packed.npz"
with zipfile.ZipFile(folder / "small.npz") as small, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as bomb:
    for info in small.infolist():
        bomb.writestr(info.filename, small.read(info) + bytes(300 << 20 if info.filename == "0.npy" else 0))
typed("compressed", lambda: utils.load_checkpoint(packed), errors.CheckpointError)
""",
    "arrays": """
column, row = np.zeros((1 << 20, 1), np.float32), np.zeros((1, 1 << 20), np.float32)
on = lambda x: grilly.to_vulkan(x, device)
memory("product", lambda: functional.matmul(on(column), on(row)).numpy())
memory("lookup", lambda: functional.embedding_lookup(on(np.zeros((4, 1 << 16), np.float32)),
                                                     on(np.zeros(1 << 17, np.int32))).numpy())
memory("to_vulkan", lambda: on(wide(1 << 20, 1 << 20)))
memory("ids", lambda: on(wide(1 << 20, 1 << 20, dtype=np.int64)))
memory("operand", lambda: functional.relu(wide(1 << 20, 1 << 20)))
memory("linear", lambda: nn.Linear(1 << 20, 1 << 20))
memory("embedding", lambda: nn.Embedding(1 << 31, 1 << 10))
memory("norm", lambda: nn.LayerNorm(1 << 40))
memory("buffer", lambda: grilly.Compute().create_buffer(1 << 40))
memory("cos_sim", lambda: util.cos_sim(np.zeros((1 << 20, 2), np.float32), np.zeros((1 << 20, 2), np.float32)))
memory("manhattan", lambda: util.manhattan_sim(np.zeros((1 << 20, 2), np.float32), np.zeros((1 << 20, 2), np.float32)))
rows = np.zeros((1 << 20, 2), np.float32)
memory("search", lambda: util.semantic_search(rows, rows, query_chunk_size=1 << 20, score_function=util.euclidean_sim))
memory("mining", lambda: util.paraphrase_mining_embeddings(rows, query_chunk_size=1 << 20, corpus_chunk_size=1 << 20))
memory("communities", lambda: util.community_detection(rows, batch_size=1 << 20))
typed("unpack", lambda: quant.unpack(np.zeros(4, np.uint8), (1 << 31, 1 << 31), "huggingface"))
assert functional.relu(on(np.ones(3, np.float32))).numpy().tolist() == [1.0] * 3
""",
    "programs": """
def constant(shape):
    graph = Graph()
    y = graph.call("activation", graph.filled(1.0, shape), kind="relu")
    return graph.program([y], device).run()[0].numpy()

memory("constant", lambda: constant((1 << 31, 1 << 10)))
typed("more than 64 bits", lambda: constant((1 << 40, 1 << 40)))
def counted(most):
    graph = Graph()
    x = graph.input("x", ("T", 16))
    y = graph.call("linear", x, graph.filled(1.0, (1 << 16, 16)))
    return graph.program([graph.call("activation", y, kind="relu")], device, {"T": most})
typed("counts", lambda: counted(1 << 62))
def many(most):
    program = counted(most)
    return program.run(np.zeros((most, 16), np.float32))[0].numpy()
memory("intermediate", lambda: many(1 << 21))
def broad():
    graph = Graph()
    x = graph.input("x", (1 << 18, 1))
    y = graph.call("linear", x, graph.input("w", (1 << 18, 1)))
    program = graph.program([y], device)
    return program.run(np.zeros((1 << 18, 1), np.float32), np.zeros((1 << 18, 1), np.float32))[0].numpy()
memory("result", broad)
memory("state", lambda: Graph().state("s", wide(1 << 20, 1 << 20)))
assert constant((2, 2)).tolist() == [[1.0, 1.0]] * 2
""",
}


@contextmanager
def group():
    """A control group with the limit, as a text that joins it; skips where none can be made."""
    for root, name in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        place = Path(root) / f"grilly-{os.getpid()}"
        try:
            place.mkdir()
            (place / name).write_text(str(LIMIT))
            (place / "cgroup.procs").open("a").close()
        except OSError:
            if place.is_dir():
                place.rmdir()
            continue
        try:
            yield place / "cgroup.procs"
        finally:
            place.rmdir()
        return
    pytest.skip("no control group can be made here")


def run(name: str, limit: str, folder: Path, device: str, joined: str = "") -> str:
    command = [sys.executable, "-c", joined + START + CODES[name], limit, str(ROOT), str(folder), device]
    environment = os.environ | {"GRILLY_DEBUG": "0", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert lines and all(line.endswith(" refused") for line in lines), done.stdout
    return done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells and limits memory so")
@pytest.mark.parametrize("limit", ["addresses", "none"])
@pytest.mark.parametrize(
    "name, device",
    [
        *((name, "cpu") for name in CODES),
        *(pytest.param(name, "vulkan", marks=pytest.mark.vulkan) for name in ("arrays", "programs")),
    ],
)
def test_sizes_beyond_memory_are_refused(tmp_path, name, limit, device):
    if device == "vulkan":
        need_vulkan()
    run(name, limit, tmp_path, device)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has control groups")
@pytest.mark.parametrize("name", ["arrays", "programs"])
def test_the_limit_of_a_control_group_is_kept_to(tmp_path, name):
    with group() as members:
        joined = f"import os\nopen({str(members)!r}, 'a').write(str(os.getpid()))\n"
        run(name, "group", tmp_path, "cpu", joined)
