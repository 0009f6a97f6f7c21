"""What the drivers share: cases from seeds, run in a child process, so that a crash or a hang is told like any fault.

A driver has two functions: `corpus(folder, given)` makes what cases start from, `case(corpus, chance)` runs one with
the generator of its seed. It returns a word for what came out; an error of grilly is such a word, too. A `Fault`,
another exception, a signal, more than `HANG` seconds or `MEMORY` bytes are faults.
"""

import argparse
import collections
import json
import logging
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import numpy as np

#: Seconds of processor time, and of waiting, that no case may take; preparing the first one may take more.
HANG, START = 10.0, 120.0
#: Bytes that a process of small cases may use.
MEMORY = 2 << 30
#: Faults that are printed, and after which a driver ends.
MOST = 20


class Fault(Exception):
    """What no case may do."""


def pick(chance, values):
    """One of a sequence, of any types."""
    return values[int(chance.integers(len(values)))]


def parser(description):
    made = argparse.ArgumentParser(description=description.splitlines()[0])
    made.add_argument("--seconds", type=float, default=10.0)
    made.add_argument("--seed", type=int, default=0, help="of the first case; the next ones have the numbers after it")
    made.add_argument("--cases", type=int, default=10**9, help="at most so many; 1 repeats one")
    made.add_argument("--device", default="cpu")
    made.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    return made


def main(corpus, case, arguments=None):
    """Runs a driver, the file of `case`; 1 where it found a fault."""
    script, description = case.__globals__["__file__"], case.__globals__["__doc__"]
    given = parser(description).parse_args(arguments)
    if given.child is not None:
        return serve(corpus, case, given)
    return watch(Path(script), given)


# ------------------------------------------------------------------------------------------------------------ the child


def attempt(case, made, seed):
    """What came out of a case: a word, and the text of a fault or nothing."""
    from grilly.errors import GrillyError

    try:
        return case(made, np.random.default_rng(seed)), ""
    except GrillyError as error:
        return type(error).__name__, ""
    except Fault as fault:
        return "fault", str(fault)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # a panic of the core is no Exception
        return "fault", traceback.format_exc(limit=-4)


def serve(corpus, case, given):
    """Runs cases one after the other and prints the seed of each before it, and what came out after it."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    made = corpus(given.child, given)
    for seed in range(given.seed, given.seed + given.cases):
        say(f"begin {seed}")
        word, text = attempt(case, made, seed)
        if text == "" and peak() > MEMORY:
            word, text = "fault", f"the process used {peak() >> 20} MiB"
        say(f"end {json.dumps([word, text])}")
        if peak() > MEMORY:
            return 0
    return 0


def say(line):
    os.write(1, line.encode(errors="backslashreplace") + b"\n")


def peak():
    """The most memory that this process had, in bytes; 0 where that is unknown."""
    try:
        import resource
    except ModuleNotFoundError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


# ----------------------------------------------------------------------------------------------------------- the parent


class Lines:
    """The lines of a process as they come."""

    def __init__(self, process):
        self.file, self.rest, self.waiting = process.stdout, b"", collections.deque()
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.file, selectors.EVENT_READ)

    def next(self, seconds):
        """The next line; `None` after some seconds, an empty one at the end."""
        if not self.waiting and self.selector.select(seconds):
            read = os.read(self.file.fileno(), 1 << 16)
            *lines, self.rest = (self.rest + read).split(b"\n")
            self.waiting.extend(line.decode() for line in lines)
            if not read:
                return ""
        return self.waiting.popleft() if self.waiting else None


def processor_time(pid):
    """Seconds that a process has computed; infinity where that is unknown."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        return float("inf")


def watch(script, given):
    """Starts children until time or cases are at an end and prints what came out."""
    counts, faults, done = collections.Counter(), 0, 0
    start = time.monotonic()
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        while done < given.cases and faults < MOST and time.monotonic() < start + given.seconds:
            for seed, word, text in outcomes(script, given, given.seed + done, given.cases - done, Path(folder)):
                done += 1
                counts[word] += 1
                if text:
                    faults += 1
                    again = f"{script.relative_to(Path.cwd()) if script.is_relative_to(Path.cwd()) else script}"
                    print(f"{script.stem}: seed {seed}: {text}", flush=True)
                    print(f"  again: python {again} --cases 1 --seed {seed} --device {given.device}", flush=True)
                if time.monotonic() > start + given.seconds or faults >= MOST:
                    break
    told = ", ".join(f"{count} {word}" for word, count in counts.most_common())
    took = f"{time.monotonic() - start:.0f} s"
    print(f"{script.stem}: {done} cases from seed {given.seed} on {given.device} in {took}: {told}; {faults} faults")
    return 1 if faults or not done else 0


def outcomes(script, given, seed, cases, folder):
    """Seed, word and fault of each case of one child, which ends with them, with a crash or with a hang."""
    command = [sys.executable, str(script), "--child", str(folder), "--seed", str(seed), "--cases", str(cases)]
    with open(folder / "errors", "w+b") as errors:
        process = subprocess.Popen([*command, "--device", given.device], stdout=subprocess.PIPE, stderr=errors)
        lines, now, begun, computed = Lines(process), None, time.monotonic(), 0.0
        try:
            while True:
                line = lines.next(0.5)
                if line:
                    kind, _, rest = line.partition(" ")
                    if kind == "begin":
                        now = int(rest)
                    else:
                        yield now, *json.loads(rest)
                        now = None
                    begun, computed = time.monotonic(), 0.0
                elif line == "":
                    status = process.wait()
                    if status:
                        name = signal.Signals(-status).name if status < 0 else f"status {status}"
                        errors.seek(max(0, errors.seek(0, os.SEEK_END) - 2000))
                        yield now, "fault", f"the process ended with {name}: {errors.read().decode(errors='replace')}"
                    return
                elif time.monotonic() > begun + (HANG if now is not None else START):
                    # The machine may be busy with something else.
                    computed = computed or processor_time(process.pid)
                    waited = time.monotonic() - begun
                    if processor_time(process.pid) - computed > HANG or computed == float("inf") or waited > 12 * HANG:
                        yield now, "fault", f"hangs: {waited:.0f} s so far"
                        return
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
