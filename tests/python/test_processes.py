"""Pickles, forks, signals, threads and the end of the process."""

import copy
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from models.variant_list import sized

import grilly
from grilly import VulkanSentenceTransformer

TEXTS = ["the cat", "a dog", "", "way of life and death"]
WORDS = "the a in of and to is it dog time year people way day thing man world life hand part child eye".split()


@pytest.fixture(scope="session")
def slow_model(tmp_path_factory, device):
    """A model that takes minutes for the texts of the tests below, and a software driver seconds for a batch."""
    folder = tmp_path_factory.mktemp("slow") / "bert"
    checkpoint = sized(
        77,
        hidden_size=256,
        num_attention_heads=8,
        intermediate_size=1024,
        num_hidden_layers=1 if device == "vulkan" and "llvmpipe" in grilly.info()["choice"]["name"] else 8,
        max_position_embeddings=160,
    )
    checkpoint.transformer = {"max_seq_length": 160}
    checkpoint.write(folder)
    return folder


def copies(model):
    yield pickle.loads(pickle.dumps(model))
    yield copy.copy(model)


def test_pickling(prompted_model, monkeypatch, tmp_path):
    monkeypatch.chdir(prompted_model.parent)
    with VulkanSentenceTransformer(prompted_model.name, device="cpu", max_seq_length=9, token="secret") as model:
        model.max_seq_length = 7
        model.truncate_dim = 5
        model.similarity_fn_name = "dot"
        model.prompts["code"] = "code: "
        del model.prompts["document"]
        model.default_prompt_name = None
        model.set_pooling_include_prompt(False)
        data = pickle.dumps(model)
        assert len(data) < 2000 and b"secret" not in data
        expected = model.encode_query(TEXTS)
        monkeypatch.chdir(tmp_path)  # the folder was named relative to another one
        for other in copies(model):
            assert other.model_name == model.model_name
            assert (other.max_seq_length, other.truncate_dim, other.similarity_fn_name) == (7, 5, "dot")
            assert other.prompts == model.prompts and other.default_prompt_name is None
            assert np.array_equal(other.encode_query(TEXTS), expected)


def encode_in_worker(model, texts):
    return os.getpid(), model.encode(texts)


def test_spawned_workers(tiny_model):
    with VulkanSentenceTransformer(tiny_model, device="cpu") as model:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            process, rows = pool.apply(encode_in_worker, (model, TEXTS))
        assert process != os.getpid() and np.array_equal(rows, model.encode(TEXTS))


FORK = """
import os, sys, warnings
warnings.simplefilter("ignore")
from grilly import VulkanSentenceTransformer
from grilly.errors import UnusableError
folder, device, used = sys.argv[1:]
model = VulkanSentenceTransformer(folder, device=device) if used == "used" else None
if model is not None:
    model.encode(["the cat"])
    with VulkanSentenceTransformer(folder, device="cpu") as same:
        rows = same.encode(["the cat"] * 300).tobytes()
        same.tokenizer(["the cat"] * 300)
child = os.fork()
if child == 0:
    status = 1
    try:
        if model is None:
            status = 0 if VulkanSentenceTransformer(folder, device=device).encode("the cat").shape == (32,) else 2
        else:
            for use in (lambda: model.encode(["the cat"]), lambda: model.encode([]), lambda: model.max_seq_length,
                        *([lambda: VulkanSentenceTransformer(folder, device=device)] * (device == "vulkan"))):
                try:
                    use()
                except UnusableError as error:
                    assert "fork" in str(error)
                else:
                    raise AssertionError("usable after the fork")
            repr(model)
            model.close()
            del model
            # Many texts, for which other threads are needed.
            with VulkanSentenceTransformer(folder, device="cpu") as own:
                assert own.encode(["the cat"] * 300).tobytes() == rows
                assert len(own.tokenizer(["the cat"] * 300)["input_ids"]) == 300
            status = 0
    finally:
        os._exit(status)
assert os.waitpid(child, 0)[1] == 0
if model is not None:
    assert model.encode(["the cat"]).shape == (1, 32)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("used", ["used", "unused"])
def test_fork(run, tiny_model, device, used):
    """A model of the parent says no in the child, which may load another, on Vulkan if the parent has none there."""
    done = run(FORK, tiny_model, device, used)
    assert done.status == 0, done.errors


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_exits_normally(run, tiny_model):
    code = """
    import os, sys, warnings
    warnings.simplefilter("ignore")
    import grilly
    model = grilly.VulkanSentenceTransformer(sys.argv[1], device="cpu")
    child = os.fork()
    if child == 0:
        sys.exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    """
    done = run(code, tiny_model)
    assert done.status == 0, done.errors


AT_THE_END = """
import os, sys, threading, time, warnings
warnings.simplefilter("ignore")
import grilly
folder, how = sys.argv[1:]
texts = ["the world of a child " * 40] * 5000
def encoding():
    model = grilly.VulkanSentenceTransformer(folder, device="cpu")
    threading.Thread(target=model.encode, args=(texts,), daemon=True).start()
    before = grilly.stats()["batches_cpu"]
    while grilly.stats()["batches_cpu"] == before:
        time.sleep(0.01)
    return model
if how == "used":
    busy = encoding()
child = os.fork()
if child == 0:
    own = encoding()
    sys.exit(3)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(status, flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("how", ["used", "unused"])
def test_a_forked_child_ends_while_its_daemon_thread_encodes(run, tiny_model, how):
    """Also where a thread of the parent was in the middle of a call."""
    done = run(AT_THE_END, tiny_model, how, timeout=60)
    assert (done.status, done.output) == (0, "3\n"), done.errors
    assert "panic" not in done.errors.lower() and "fatal" not in done.errors.lower()


def test_a_forkserver_pool_encodes(run, tiny_model, tmp_path):
    code = """
    import multiprocessing, sys
    import numpy as np
    import grilly

    def encode(model):
        return model.encode(["the cat"])

    if __name__ == "__main__":
        with grilly.VulkanSentenceTransformer(sys.argv[1], device="cpu") as model:
            with multiprocessing.get_context("forkserver").Pool(2) as pool:
                rows = pool.map(encode, [model] * 4)
            assert all(np.array_equal(each, model.encode(["the cat"])) for each in rows)
        print("end")
    """
    file = tmp_path / "pool.py"
    file.write_text(textwrap.dedent(code))
    done = subprocess.run([sys.executable, file, tiny_model], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr


POOL = """
import multiprocessing, pickle, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
import grilly
folder, device = sys.argv[1:]

def encode(model):
    return model.encode(["the cat"])

def tokens(model):
    return model.tokenizer("the cat")

def settings(model):
    assert ("unusable" in repr(model)) == (device == "vulkan")
    model.close()
    place = model.requested_device, model.device
    return model.model_name, place, model.truncate_dim, model.model_type, model.pooling_type, model.config

def again(model):
    return pickle.dumps(model)

def gelu(x):
    return grilly.functional.gelu(x).numpy()

model = grilly.VulkanSentenceTransformer(folder, device=device, truncate_dim=5)
model.set_pooling_include_prompt(False)
rows = model.encode(["the cat"])
x = grilly.to_vulkan([1.0, 2.0], device)
tasks = [(encode, model), (model.encode, ["the cat"]), (tokens, model), (again, model)]
with multiprocessing.get_context("fork").Pool(1) as pool:
    if device == "cpu":  # the worker loads the model again, and restores the array
        for use, given in tasks[:2]:
            assert pool.apply(use, (given,)).tobytes() == rows.tobytes()
        assert pool.apply(tokens, (model,)) == model.tokenizer("the cat")
        assert pickle.loads(pool.apply(again, (model,))).encode(["the cat"]).tobytes() == rows.tobytes()
        assert pool.apply(gelu, (x,)).shape == (2,)
    for use, given in (tasks + [(gelu, x), (np.asarray, x), (repr, x)]) * (device == "vulkan"):
        try:
            found = pool.apply(use, (given,))
        except grilly.errors.GrillyError as error:
            expected = grilly.errors.UnusableError if given is not x else grilly.errors.DeviceUnavailableError
            assert type(error) is expected and "fork" in str(error), error
        else:
            raise AssertionError((use, found))
    found = pool.apply(settings, (model,))
    assert found == (folder, (device, "cpu"), 5, "bert", "mean", model.config), found
print(model.encode(["the cat"]).shape)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_pool_of_forked_workers_loads_on_the_cpu_and_else_gives_the_error(run, tiny_model, device):
    """An error while a worker unpickles its task would end the worker, and the pool would wait for ever."""
    done = run(POOL, tiny_model, device, timeout=60, GRILLY_STRICT="1")
    assert (done.status, done.output) == (0, "(1, 5)\n"), done.errors


def test_a_model_that_cannot_be_loaded_again_says_so_at_its_first_use(tiny_model, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(tiny_model, folder)
    with VulkanSentenceTransformer(folder, device="cpu") as model:
        data = pickle.dumps(model)
    folder.rename(tmp_path / "elsewhere")
    restored = pickle.loads(data)
    with pytest.raises(grilly.errors.ModelNotFoundError, match="model: not there"):
        restored.encode("the cat")
    assert "unusable" in repr(restored)


def test_two_threads_get_the_same_bits(model):
    texts = TEXTS * 9
    expected = model.encode(texts)
    with ThreadPoolExecutor(4) as pool:
        for rows in pool.map(lambda size: model.encode(texts, batch_size=size), [1, 3, 7, 32] * 4):
            assert rows.tobytes() == expected.tobytes()


def test_closing_while_another_thread_encodes(tiny_model, device):
    model = VulkanSentenceTransformer(tiny_model, device=device)
    expected = model.encode(TEXTS)
    failures = []

    def work():
        try:
            while True:
                if model.encode(TEXTS * 50).tobytes() != np.tile(expected, (50, 1)).tobytes():
                    failures.append("other bits")
        except RuntimeError as error:
            if "closed" not in str(error):
                failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.2)
    model.close()
    thread.join(30)
    assert not thread.is_alive() and not failures


def test_other_threads_run_while_encoding(cpu_model):
    """The interpreter's lock is let go of: a thread that counts keeps counting."""
    texts = [" ".join(WORDS)] * 3000
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.wait(0.001):
            ticks.append(time.perf_counter())

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.perf_counter()
    cpu_model.encode(texts, batch_size=3000)
    end = time.perf_counter()
    stop.set()
    thread.join()
    assert sum(start < tick < end for tick in ticks) > (end - start) / 0.05


def start(code: str, *arguments: object) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=os.environ | {"GRILLY_DEBUG": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen) -> tuple[str, str]:
    """What a process still says until it ends, within a minute."""
    try:
        return process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


# What starts the tests may ignore SIGINT, as a shell does for its background jobs, and children inherit that.
ENCODE = """
import signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)
import grilly
folder, device, count, batch_size = sys.argv[1:5]
model = grilly.VulkanSentenceTransformer(folder, device=device)
assert model.backend == device
texts = [" ".join(["the world of a child"] * 40)] * int(count)
def encode():
    model.encode(texts, batch_size=int(batch_size))
def wait():
    # for the first batch, or where there is none for long, for the tokenizing
    for _ in range(40):
        time.sleep(0.1)
        stats = grilly.stats()
        if stats["batches_cpu"] + stats["batches_vulkan"]:
            break
"""
SOON = "threading.Thread(target=lambda: (wait(), print('encoding', flush=True)), daemon=True).start()"
# Stopped while batches run, within one large batch, and while texts are tokenized.
STAGES = {"batches": (2000, 8), "one batch": (2000, 2000), "tokenizing": (50_000, 8)}


@pytest.mark.parametrize("stage", ["batches", "tokenizing"])
def test_ctrl_c(slow_model, device, stage):
    code = f"""{ENCODE}
{SOON}
try:
    encode()
except KeyboardInterrupt:
    print("interrupted", model.encode("still works").shape, flush=True)
"""
    process = start(code, slow_model, device, *STAGES[stage])
    assert process.stdout.readline() == "encoding\n", process.stderr.read()
    process.send_signal(signal.SIGINT)
    output, errors = ended(process)
    assert (process.returncode, output) == (0, "interrupted (256,)\n"), errors


LEAVE = {
    "end": "",
    "exit": "sys.exit(7)",
    "exception": "raise ValueError('the last words')",
    "logging": "import logging; logging.basicConfig(level=logging.DEBUG)",
}


@pytest.mark.parametrize(
    "how, stage", [*((how, "batches") for how in LEAVE), *(("end", stage) for stage in STAGES)][1:]
)
def test_exit_while_a_daemon_thread_encodes(slow_model, device, how, stage):
    code = f"""{ENCODE}
threading.Thread(target=encode, daemon=True).start()
wait()
print("leaving", flush=True)
{LEAVE[how]}
"""
    process = start(code, slow_model, device, *STAGES[stage])
    assert process.stdout.readline() == "leaving\n", process.stderr.read()
    begin = time.perf_counter()
    _, errors = ended(process)
    seconds = time.perf_counter() - begin
    assert process.returncode == {"exit": 7, "exception": 1}.get(how, 0), errors
    assert seconds < 2, errors
    assert ("the last words" in errors) == (how == "exception")
    assert "panic" not in errors.lower() and "fatal" not in errors.lower()


def test_an_exception_in_the_progress_bar_stops(cpu_model, monkeypatch):
    class Broken:
        def __init__(self, **_):
            self.n = 0

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def update(self, _):
            raise KeyError("broken bar")

    monkeypatch.setattr("tqdm.auto.tqdm", Broken)
    with pytest.raises(KeyError, match="broken bar"):
        cpu_model.encode(TEXTS, show_progress_bar=True)
    assert cpu_model.encode(TEXTS).shape == (4, 32)


def test_a_sub_interpreter_is_refused_and_the_process_ends():
    """Whether or not the main interpreter has grilly; a module of one phase would otherwise be shared."""
    code = """
        import sys
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        if sys.argv[1] == "before":
            import grilly
        script = "try:\\n import grilly._core\\nexcept ImportError as error:\\n print(error, flush=True)"
        sub = interpreters.create()
        (interpreters.exec if hasattr(interpreters, "exec") else interpreters.run_string)(sub, script)
        print("end")
    """
    for when in ("before", "never"):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), when], capture_output=True, text=True, timeout=60
        )
        lines = done.stdout.splitlines()
        assert done.returncode == 0 and lines[-1] == "end" and "interpreter" in lines[0], done.stdout + done.stderr
