"""Damaged folders of training runs: `python tests/fuzz/runs.py`.

Record, tensors, tokens and metrics of a checkpoint are refused with CheckpointError, or go on with every bit as if they
were whole. A record without its hash, as earlier versions wrote it, may say anything: an error of grilly, or a run.
"""

import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz import damage  # isort: skip
from fuzz.driver import Fault, main, pick  # isort: skip

TEXT = "The café serves naïve crêpes, 12 of them, then 345.\n" * 12
LAST = 5
#: Sizes and settings of the runs, each with checkpoints after steps 2 and 4.
RUNS = [
    ({}, {}),
    ({"dropout": 0.1}, {"max_norm": 1.0, "schedule": {"kind": "cosine", "warmup": 1}}),
    ({"vocab_size": 270}, {"tokenizer": "bpe"}),
    ({"tied_output": True, "positions": "rotary"}, {"optimizer": "sgd"}),
    ({"bitlinear": True}, {"accumulate": 2}),
    ({}, {"dtype": "float16"}),
]


class Runs:
    """Runs that were stopped, each made when it is first drawn."""

    def __init__(self, folder, device):
        self.folder, self.device, self.made = folder, device, {}

    def draw(self, chance):
        number = int(chance.integers(len(RUNS) - (self.device == "cpu")))  # the last is not for the CPU
        if number not in self.made:
            self.made[number] = self.run(number)
        return self.made[number]

    def run(self, number):
        """The files, what each step that may be resumed is, and the end."""
        from grilly.train import Trainer, TransformerConfig

        sizes, options = RUNS[number]
        config = TransformerConfig(256, d_model=4, num_layers=1, num_heads=2, ffn_dim=8, max_seq_len=8)
        config = replace(config, **sizes)
        place = self.folder / f"run{number}"
        shutil.rmtree(place, ignore_errors=True)
        common = {"device": self.device, "batch_size": 4, "checkpoint_steps": 2, "learning_rate": 0.01}
        for step in Trainer(config, TEXT, place, steps=LAST, **common, **options).run():
            if step.step == 4:
                break
        files = {path.name: path.read_bytes() for path in place.iterdir()}
        resumed = Trainer.resume(TEXT, place, steps=LAST, device=self.device)
        states = {4: state(resumed)}
        list(resumed.run())
        end = resumed.hashes()
        written(files, place)
        (place / "step-00000004.json").unlink()
        states[2] = state(Trainer.resume(TEXT, place, steps=LAST, device=self.device))
        written(files, place)
        return Whole(place, files, states, end)


class Whole:
    def __init__(self, place, files, states, end):
        self.place, self.files, self.states, self.end = place, files, states, end


def state(trainer):
    """What a run goes on with."""
    return trainer.config, trainer._core.settings(), trainer.hashes()


def written(files, folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)


def corpus(folder, given):
    return Runs(folder, given.device)


def changed(whole, chance):
    """The files after one change, its description, and whether the hashes of the newest record hold."""
    files = dict(whole.files)
    kind, name = chance.random(), pick(chance, sorted(files))
    if kind < 0.3:
        # As earlier versions wrote it.
        newest = "step-00000004.json"
        record = json.loads(files[newest])
        del record["record_sha256"]
        record.pop("metrics", None)
        record["format"] = 1
        for _ in range(int(chance.integers(1, 3))):
            record = damage.of_value(record, chance)
        files[newest] = json.dumps(record).encode()
        return files, f"an earlier {newest}: {record}", False
    if kind < 0.7:
        change = damage.of_json if name.endswith("json") else damage.of_bytes
        if name.endswith("safetensors"):
            change = pick(chance, [damage.of_header, damage.of_numbers, damage.of_bytes, damage.without_tensor])
        files[name] = change(files[name], chance)
        return files, f"{change.__name__} {name}", True
    if kind < 0.8:
        files[name] = b"" if chance.random() < 0.5 else damage.cut(files[name], chance)
        return files, f"{name} cut", True
    if kind < 0.87:
        del files[name]
        return files, f"without {name}", True
    if kind < 0.95:
        other = pick(chance, sorted(files))
        files[name], files[other] = files[other], files[name]
        return files, f"{name} and {other} exchanged", True
    files[pick(chance, ["step-00000009.json", "step-9.json", "run.lock", "notes", "metrics.jsonl.unfinished"])] = b"x"
    return files, "a file beside them", True


def case(runs, chance):
    """One damaged folder."""
    from grilly.train import Trainer

    whole, folder = runs.draw(chance), runs.folder / "case"
    files, what, protected = changed(whole, chance)
    written(files, folder)
    if protected:
        what = f"{what} of {whole.place.name}"
    before = sorted(os.listdir(folder))
    loaded = attempt(lambda: Trainer.load(folder, device=runs.device).hashes(), what, protected)
    steps = LAST if protected or chance.random() < 0.5 else None
    resumed = attempt(lambda: Trainer.resume(TEXT, folder, steps=steps, device=runs.device), what, protected)

    if isinstance(resumed, Exception):
        if sorted(os.listdir(folder)) != before and "unfinished" not in str(before):
            raise Fault(f"{what}: refused, and other files in the folder: {sorted(os.listdir(folder))}")
        return type(resumed).__name__
    if protected:
        if resumed.steps_done not in whole.states or state(resumed) != whole.states[resumed.steps_done]:
            raise Fault(f"{what}: goes on from another state: step {resumed.steps_done}, {state(resumed)[:2]}")
        if not isinstance(loaded, Exception) and loaded != state(resumed)[2]:
            raise Fault(f"{what}: load and resume differ")
        if chance.random() < 0.3:
            end = attempt(lambda: (list(resumed.run()), resumed.hashes())[1], what, protected)
            if not isinstance(end, Exception) and end != whole.end:
                raise Fault(f"{what}: ends with other numbers")
        return "goes on"
    if resumed.steps - resumed.steps_done < 9 and resumed.config.d_model < 99:
        losses = attempt(lambda: [step.loss for step in resumed.run()], what, protected)
        if not isinstance(losses, Exception) and not np.isfinite(losses).all():
            raise Fault(f"{what}: losses {losses}")
    return "other run"


def attempt(call, what, protected):
    """What a call returns, or its error, which of a protected run is a CheckpointError."""
    from grilly.errors import CheckpointError, GrillyError

    try:
        return call()
    except CheckpointError as error:
        return error
    except GrillyError as error:
        if protected:
            raise Fault(f"{what}: {error!r}, expected CheckpointError") from None
        return error


if __name__ == "__main__":
    sys.exit(main(corpus, case))
