"""Sizes that memory does not hold are refused with the numbers; the process goes on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

#: 2 GiB of addresses.
CODE = """
import resource, sys
from dataclasses import replace
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from grilly.errors import DeviceMemoryError
from grilly.train import Trainer, TransformerConfig
from train.test_training import BYTES, TEXT, earlier, trained
folder = Path(sys.argv[2])
most = 2**31 - 1

def refused(name, call):
    try:
        call()
    except DeviceMemoryError as error:
        assert " bytes are available (of " in str(error), error
        print("refused", name, flush=True)

def alone(options={}, **sizes):
    return lambda: Trainer(replace(BYTES, **sizes), device="cpu", **options)

for name in ("vocab_size", "num_layers", "ffn_dim", "max_seq_len"):
    refused(name, alone(**{name: most}))
refused("d_model", alone(d_model=2**20))
refused("tied", alone(vocab_size=10**8, tied_output=True))
refused("rotary", alone(max_seq_len=most, positions="rotary"))
refused("batch_size", alone({"batch_size": 2**22}))
refused("sgd", alone({"optimizer": "sgd"}, vocab_size=10**8))
text = "the theme of the thesis " * 200
refused("bpe", lambda: Trainer(replace(BYTES, vocab_size=most), text, folder / "bpe", device="cpu", tokenizer="bpe"))
list(trained(folder / "run", steps=1).run())
record = folder / "run" / "step-00000001.json"
import json
config = json.loads(record.read_text())["config"]
for name in ("vocab_size", "num_layers", "ffn_dim", "max_seq_len"):
    earlier(record, config={**config, name: most}) if name == "vocab_size" else record.write_text(
        json.dumps({**json.loads(record.read_text()), "config": {**config, name: most}}))
    refused("load " + name, lambda: Trainer.load(folder / "run", device="cpu"))
    # A text that is shorter than a window is refused before.
    if name != "max_seq_len":
        refused("resume " + name, lambda: Trainer.resume(TEXT, folder / "run", device="cpu"))
with (folder / "run" / "step-00000001.safetensors").open("r+b") as file:
    file.truncate(40 << 30)
refused("file", lambda: Trainer.load(folder / "run", device="cpu"))
alone()().step([[1, 2, 3]] * 32)
print("end", flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits addresses so")
def test_sizes_beyond_memory_are_refused(tmp_path):
    command = [sys.executable, "-c", CODE, str(Path(__file__).parent.parent), str(tmp_path)]
    environment = os.environ | {"GRILLY_DEBUG": "0", "OPENBLAS_NUM_THREADS": "1", "RAYON_NUM_THREADS": "2"}
    found = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert found.returncode == 0, found.stderr
    names = ["vocab_size", "num_layers", "ffn_dim", "max_seq_len"]
    stated = [f"{call} {name}" for name in names for call in ("load", "resume")][:-1]
    expected = [*names, "d_model", "tied", "rotary", "batch_size", "sgd", "bpe", *stated, "file"]
    assert found.stdout.splitlines() == [*(f"refused {name}" for name in expected), "end"]
