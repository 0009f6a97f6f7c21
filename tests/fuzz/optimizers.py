"""Random programs of optimisers and schedules, beside torch where it is installed: `python tests/fuzz/optimizers.py`.

Beside torch, parameters, states, settings and rates are compared after every operation. Alone, a program is run twice,
once with copies, pickles and saved states in between, and must end with the same bits; what is finite stays finite.
"""

import argparse
import copy
import pprint
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.optimizer_programs import World, draw  # isort: skip

from grilly import nn, optim
from grilly.errors import InvalidArgumentError

try:
    import torch
except ModuleNotFoundError:
    torch = None

#: The largest error of a step, in units of the largest numbers so far.
STEP = 1e-6


def write(p, values):
    p[...] = values


def set_gradient(p, values):
    p.grad = values


OURS = SimpleNamespace(
    optim=optim,
    schedules=optim,
    parameter=nn.Parameter,
    shape=np.shape,
    write=write,
    set_gradient=set_gradient,
    numbers=np.asarray,
    state=lambda optimizer, p: optimizer.state.get(id(p), {}),
)


def theirs():
    """torch with the same functions."""

    def write(p, values):
        with torch.no_grad():
            p.copy_(torch.tensor(values))

    def set_gradient(p, values):
        p.grad = None if values is None else torch.tensor(values)

    return SimpleNamespace(
        optim=torch.optim,
        schedules=torch.optim.lr_scheduler,
        parameter=lambda values: torch.nn.Parameter(torch.tensor(values)),
        shape=lambda p: tuple(p.shape),
        write=write,
        set_gradient=set_gradient,
        numbers=lambda p: p.detach().numpy(),
        state=lambda optimizer, p: optimizer.state.get(p, {}),
    )


class Fault(Exception):
    """A difference, or an error of the one library that the other has not."""


class Scales:
    """The largest numbers of a parameter and its state so far, which bound the errors of a sum."""

    def __init__(self):
        self.most, self.steps, self.decay = {}, {}, {}
        #: Parameters whose divisor was a square with few bits left: the roots of such squares differ.
        self.vanished = set()

    def close(self, key, a, b, slack=0.0, terms=0.0):
        """Raises where two arrays differ by more than the roundings of the steps so far; `terms` may have cancelled."""
        with np.errstate(all="ignore"):
            self.steps[key] = self.steps.get(key, 0) + 1
            most = np.fmax(self.most.get(key, np.zeros(np.shape(b))), np.where(np.isfinite(b), np.abs(b), 0))
            self.most[key] = most
            bound = STEP * self.steps[key] * (most + terms) + slack * np.abs(b) + 1e-37
            # Beyond 1e38 a rounding decides between a number and infinity.
            same = (np.abs(a - b) <= bound) | (a == b) | (np.isnan(a) & np.isnan(b))
            same |= (most > 1e37) & (np.isfinite(a) != np.isfinite(b))
        if np.shape(a) != np.shape(b) or not same.all():
            raise Fault(f"{key}: {np.asarray(a).tolist()}, in torch {np.asarray(b).tolist()}")


def compare(a, b, scales):
    """Raises Fault where two worlds differ."""
    for place, (p, q) in enumerate(zip(a.params, b.params, strict=True)):
        ours, other = OURS.state(a.optimizer, p), b.library.state(b.optimizer, q)
        ours, other = ({k: v for k, v in held.items() if v is not None} for held in (ours, other))
        if ours.keys() != other.keys():
            raise Fault(f"state {place}: {sorted(ours)}, in torch {sorted(other)}")
        for name, held in other.items():
            if name == "step":
                if ours[name] != int(held):
                    raise Fault(f"step {place}: {ours[name]}, in torch {int(held)}")
                continue
            owners = [group for group in b.optimizer.param_groups if any(q is each for each in group["params"])]
            beta = owners[0].get("betas", (0.5, 0.5))[1]
            # Our weights of all gradients sum to 1 in float32: the last one is not that of float64.
            slack = 2 * abs((1 - float(np.float32(beta))) / (1 - beta) - 1) if "sq" in name else 0.0
            decay = scales.decay[place] = max(scales.decay.get(place, 0.0), owners[0]["weight_decay"])
            with np.errstate(over="ignore"):
                terms = (decay * scales.most[place, "p"]) ** (2 if "sq" in name else 1)
            exact = held.numpy().astype(np.float64)
            scales.close((place, name), np.asarray(ours[name], np.float64), exact, slack, terms)
            if "sq" in name and owners[0].get("eps") == 0.0 and ((exact > 0) & (exact < 1e-36)).any():
                scales.vanished.add(place)
        if place not in scales.vanished:
            scales.close((place, "p"), np.asarray(p, np.float64), b.library.numbers(q).astype(np.float64))
    for place, (g, h) in enumerate(zip(a.optimizer.param_groups, b.optimizer.param_groups, strict=True)):
        common = [name for name in h if name not in ("params", "param_names") and (name in g or name in CONTESTED)]
        for name in common:
            near(f"group {place} {name}", g.get(name), h[name])
    for place, (s, t) in enumerate(zip(a.schedules, b.schedules, strict=True)):
        near(f"schedule {place} last_epoch", s.last_epoch, t.last_epoch)
        near(f"schedule {place} get_last_lr", s.get_last_lr(), t.get_last_lr())
        for name in ("base_lrs", "best", "num_bad_epochs", "cooldown_counter", "_step_count"):
            if hasattr(t, name) and type(t).__name__ not in ("SequentialLR", "Halving"):
                # Ours goes on where groups were added, of which torch's has no rates.
                own = getattr(s, name)[: len(t.base_lrs)] if name == "base_lrs" else getattr(s, name)
                near(f"schedule {place} {name}", own, getattr(t, name))


#: Settings that schedules leave in groups.
CONTESTED = ("lr", "initial_lr", "max_lr", "min_lr", "max_momentum", "base_momentum")


def near(key, a, b):
    with np.errstate(all="ignore"):
        alike = a is not None and np.shape(a) == np.shape(b)
        same = alike and np.allclose(a, b, rtol=1e-11, atol=1e-300, equal_nan=True)
    if not same:
        raise Fault(f"{key}: {a}, in torch {b}")


def tried(world, operation):
    """A further world or None, and the error of an operation or None."""
    try:
        return world.run(operation), None
    except Exception as error:  # any error is compared
        return None, error


def beside_torch(program):
    """Runs a program in both libraries and returns the number of operations that were compared."""
    library, first = theirs(), program[0][1:]
    worlds = [(World(OURS, *first), World(library, *first), Scales())]
    compare(*worlds[0])
    for count, operation in enumerate(program[1:]):
        a, b, scales = worlds[operation[1] % len(worlds)]
        (made, error), (other, refused) = tried(a, operation), tried(b, operation)
        if refused is not None:
            # Where torch raises, we end too, or do something that has no counterpart.
            if error is not None and not isinstance(error, InvalidArgumentError | ZeroDivisionError):
                raise Fault(f"{operation}: {error!r}, in torch {refused!r}")
            return count
        if error is not None:
            finite = [np.isfinite(g["lr"]) for g in b.optimizer.param_groups]
            said = str(error) if isinstance(error, InvalidArgumentError) else ""
            if "expected a finite number" in said and not all(finite):
                return count  # torch takes the step; we name the rate
            if operation[0] in ("load", "rebuild") and "has shape" in said:
                return count  # torch loads a state of another shape
            raise Fault(f"{operation}: {error!r}, none in torch")
        if made is not None and len(worlds) < 3:
            fresh = Scales()
            vars(fresh).update(copy.deepcopy(vars(scales)))
            worlds.append((made, other, fresh))
        try:
            for each in worlds:
                compare(*each)
        except Fault as fault:
            raise Fault(f"after {operation}: {fault}") from None
    return len(program)


def alone(program):
    """Runs a program twice, the second time with what must change nothing in between, and returns its length."""
    first = program[0][1:]
    with np.errstate(all="ignore"):
        plain, other = World(OURS, *first), World(OURS, *first)
    # Without eps a gradient of 0 gives 0 / 0.
    finite = first[1].get("eps") != 0.0
    for place, operation in enumerate(program[1:]):
        if operation[0] in ("copy", "rebuild"):
            continue
        found = [tried(world, operation)[1] for world in (plain, other)]
        if len({repr(error) for error in found}) > 1:
            raise Fault(f"{operation}: {found}")
        if found[0] is not None:
            if not isinstance(found[0], InvalidArgumentError | ZeroDivisionError):
                raise Fault(f"{operation}: {found[0]!r}")
            return place
        other = other.copied(("deepcopy", "pickle", "state")[place % 3])
        finite = finite and (operation[0] != "step" or 1e-20 < abs(operation[3]) < 1e4)
        for p, q in zip(plain.params, other.params, strict=True):
            if not np.array_equal(p, q, equal_nan=True):
                raise Fault(f"after {operation}: {p.tolist()}, with copies {q.tolist()}")
            if finite and not np.isfinite(p).all():
                raise Fault(f"after {operation}: {p.tolist()}")
        rates = [[group["lr"] for group in world.optimizer.param_groups] for world in (plain, other)]
        if rates[0] != rates[1] and not np.isnan(rates[0]).any():
            raise Fault(f"after {operation}: rates {rates[0]}, with copies {rates[1]}")
    return len(program)


def run(program):
    """Runs a program as torch's absence allows; raises Fault."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return alone(program) if torch is None else beside_torch(program)


def shrunk(program, runs):
    """The program without operations that the fault does not need."""
    place = len(program) - 1
    while place > 0:
        shorter = program[:place] + program[place + 1 :]
        try:
            runs(shorter)
        except Fault:
            program = shorter
        place -= 1
    return program


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--programs", type=int, default=10**9, help="at most so many")
    parser.add_argument(
        "--moderate", action="store_true", help="without gradients that overflow, vanish or are no numbers"
    )
    given = parser.parse_args(arguments)
    end, programs, operations, faults = time.monotonic() + given.seconds, 0, 0, 0
    while time.monotonic() < end and programs < given.programs:
        seed = given.seed + programs
        program = draw(seed, extremes=not given.moderate)
        programs += 1
        try:
            operations += run(program)
        except Fault as fault:
            faults += 1
            print(f"seed {seed}: {fault}")
            if faults <= 3:
                pprint.pprint(shrunk(program, run), width=120)
    beside = "alone" if torch is None else f"beside torch {torch.__version__}"
    kind = "moderate " if given.moderate else ""
    done = f"{programs} {kind}programs from seed {given.seed}, {operations} operations"
    print(f"optimizers: {done}, {beside}: {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
