"""Random programs over optimisers and schedules, as lists of operations that any library with torch's names can run."""

import copy
import io
import pickle

import numpy as np

SHAPES = [(), (0,), (1,), (3,), (2, 3), (2, 1, 2)]
RATES = [0.0, 1e-3, 0.01, 0.1, 0.25, 1.0, 3.0]
DECAYS = [0.0, 0.5, 0.75, 0.9, 0.9375]
SQUARES = [0.75, 0.96875, 0.99, 0.999, 0.9990234375]
#: Sizes of gradients whose squares overflow or vanish in float32, and numbers that are none.
EXTREMES = [0.0, 1e-30, 1e-20, 1e-10, 1e10, 1e18, 3e19, 1e20, 1e25, 1e37, 3.4e38, np.inf, -np.inf, np.nan]


def draw(seed, extremes=True):
    """A program: the settings of an optimiser, and the operations on it, whose numbers any state can follow."""
    chance = np.random.default_rng(seed)
    operations = [("optimizer", *optimizer(chance))]
    for _ in range(chance.integers(3, 30)):
        operations.append(operation(chance, extremes))
    return operations


def pick(chance, values):
    return values[chance.integers(len(values))]


def optimizer(chance):
    kind = pick(chance, ["SGD", "Adam", "AdamW"])
    settings = {"lr": pick(chance, RATES), "weight_decay": pick(chance, [0.0, 0.0, 0.01, 0.5])}
    if kind == "SGD":
        settings["momentum"] = pick(chance, DECAYS)
        settings["nesterov"] = bool(settings["momentum"] and chance.random() < 0.4)
        settings["dampening"] = 0.0 if settings["nesterov"] else pick(chance, [0.0, 0.0, 0.3, 1.0])
    else:
        settings |= {"betas": (pick(chance, DECAYS), pick(chance, SQUARES)), "eps": pick(chance, [1e-8, 1e-3, 0.0])}
        if kind == "AdamW":
            settings["amsgrad"] = bool(chance.random() < 0.4)
    groups = [group(chance) for _ in range(chance.integers(1, 4))]
    return kind, settings, groups, pick(chance, ["groups", "named", "one"])


def group(chance):
    own = {"lr": pick(chance, RATES)} if chance.random() < 0.3 else {}
    if chance.random() < 0.2:
        own["weight_decay"] = pick(chance, [0.0, 0.1])
    return [pick(chance, SHAPES) for _ in range(chance.integers(1, 3))], own, int(chance.integers(1 << 30))


def schedule(chance, deep=True):
    kinds = ["StepLR", "LinearLR", "CosineAnnealingLR", "OneCycleLR", "ReduceLROnPlateau", "Halving"]
    kind = pick(chance, kinds + ["SequentialLR"] * 2 if deep else kinds[:3])
    size = int(chance.integers(1, 7))
    if kind == "StepLR":
        return kind, {"step_size": size, "gamma": pick(chance, [0.1, 0.5, 2.0])}
    if kind == "LinearLR":
        ends = {"start_factor": pick(chance, [0.1, 0.5, 1.0]), "end_factor": pick(chance, [0.0, 0.5, 1.0])}
        return kind, ends | {"total_iters": size}
    if kind == "CosineAnnealingLR":
        return kind, {"T_max": size, "eta_min": pick(chance, [0.0, 0.01])}
    if kind == "OneCycleLR":
        return kind, {
            "max_lr": pick(chance, RATES[1:]),
            "total_steps": 3 + 4 * size,
            "pct_start": pick(chance, [0.25, 0.45]),
            "anneal_strategy": pick(chance, ["cos", "linear"]),
            "cycle_momentum": bool(chance.random() < 0.5),
        }
    if kind == "ReduceLROnPlateau":
        return kind, {
            "mode": pick(chance, ["min", "max"]),
            "factor": 0.5,
            "patience": int(chance.integers(3)),
            "threshold_mode": pick(chance, ["rel", "abs"]),
            "cooldown": int(chance.integers(2)),
            "min_lr": pick(chance, [0.0, 0.05]),
        }
    if kind == "SequentialLR":
        parts = [schedule(chance, deep=False) for _ in range(chance.integers(1, 4))]
        starts = np.cumsum(chance.integers(0, 5, len(parts) - 1)).tolist()
        return kind, {"schedulers": parts, "milestones": starts}
    return kind, {}


def operation(chance, extremes):
    kind = pick(chance, ["step"] * 8 + ["advance"] * 6 + ["schedule"] * 3 + ["save", "load", "load", "rebuild"] * 2
                + ["group", "copy", "set", "write", "jump", "leave"])  # fmt: skip
    place, seed = int(chance.integers(100)), int(chance.integers(1 << 30))
    if kind == "step":
        size = pick(chance, EXTREMES) if extremes and chance.random() < 0.2 else pick(chance, [1e-3, 1.0, 1.0, 1e3])
        return kind, place, seed, size, pick(chance, ["grad", "closure", "some"])
    if kind == "schedule":
        return kind, place, schedule(chance)
    if kind == "advance":
        return kind, place, float(pick(chance, [0.0, 0.5, 1.0, 2.0, np.nan])), bool(chance.random() < 0.6)
    if kind == "jump":
        return kind, place, int(chance.integers(8))
    if kind == "load":
        return kind, place, seed, pick(chance, ["optimizer", "schedules", "optimizer first", "schedules first"])
    if kind == "rebuild":
        return kind, place, pick(chance, ["schedules made first", "state loaded first"])
    if kind == "copy":
        return kind, place, pick(chance, ["deepcopy", "pickle", "state"]), bool(chance.random() < 0.5)
    if kind == "group":
        return kind, place, group(chance)
    if kind == "set":
        name = pick(chance, ["lr", "weight_decay", "momentum"])
        return kind, place, seed, name, pick(chance, RATES if name == "lr" else [0.0, 0.1, 0.5])
    return kind, place, seed


class Halving:
    """A schedule of users, in closed form; `of` makes it a class of a library."""

    def get_lr(self):
        return [rate * 0.5 ** (self.last_epoch / 3) for rate in self.base_lrs]

    @staticmethod
    def of(base):
        made = type("Halving", (Halving, base), {})
        made.__reduce_ex__ = lambda self, _: (remade, (base,), vars(self))
        return made


def remade(base):
    return object.__new__(Halving.of(base))


class World:
    """Parameters, an optimiser and its schedules in one library."""

    def __init__(self, library, kind, settings, groups, form):
        self.library, self.params, self.made = library, [], (kind, settings)
        made = [self.group(each) for each in groups]
        if form == "one":
            made = [p for each in made for p in each["params"]]
        elif form == "named":
            made = [(f"p{place}", p) for place, p in enumerate(p for each in made for p in each["params"])]
        self.optimizer = getattr(library.optim, kind)(made, **settings)
        self.schedules, self.specs, self.saved = [], [], []

    def group(self, drawn):
        shapes, own, seed = drawn
        numbers = np.random.default_rng(seed)
        params = [self.library.parameter(numbers.standard_normal(shape).astype(np.float32)) for shape in shapes]
        self.params += params
        return {"params": params, **own}

    def schedule(self, spec):
        kind, settings = spec
        if kind == "Halving":
            return Halving.of(self.library.schedules.LRScheduler)(self.optimizer)
        if kind == "SequentialLR":
            parts = [self.schedule(part) for part in settings["schedulers"]]
            return self.library.schedules.SequentialLR(self.optimizer, parts, settings["milestones"])
        return getattr(self.library.schedules, kind)(self.optimizer, **settings)

    def state(self):
        return copy.deepcopy((self.optimizer.state_dict(), [each.state_dict() for each in self.schedules]))

    def load(self, state, what):
        def schedules():
            for each, held in zip(self.schedules, state[1]):
                each.load_state_dict(copy.deepcopy(held))

        if what.startswith("schedules"):
            schedules()
        if what != "schedules":
            self.optimizer.load_state_dict(copy.deepcopy(state[0]))
        if what == "optimizer first":
            schedules()

    def rebuild(self, order):
        """A new optimiser and new schedules of the same parameters, with the state of the old ones."""
        state, (kind, settings) = self.state(), self.made
        groups = [{"params": list(each["params"])} for each in self.optimizer.param_groups]
        self.optimizer = getattr(self.library.optim, kind)(groups, **settings)
        if order == "state loaded first":
            self.optimizer.load_state_dict(copy.deepcopy(state[0]))
        self.schedules = [self.schedule(spec) for spec in self.specs]
        self.load(state, "schedules first" if order != "state loaded first" else "schedules")

    def copied(self, how):
        if how == "state":
            self.rebuild("schedules made first")
            return self
        held = (self.params, self.optimizer, self.schedules)
        if how == "deepcopy":
            held = copy.deepcopy(held)
        else:
            file = io.BytesIO()
            pickle.dump(held, file)
            held = pickle.loads(file.getvalue())
        made = copy.copy(self)
        made.params, made.optimizer, made.schedules = held
        made.specs, made.saved = list(self.specs), list(self.saved)
        return made

    def step(self, seed, size, how):
        numbers = np.random.default_rng(seed)
        gradients = []
        for p in self.params:
            values = numbers.standard_normal(self.library.shape(p)).astype(np.float32)
            if size != 1.0:
                hit = numbers.random(values.shape) < 0.5 if abs(size) > 1e3 or not size < np.inf else True
                with np.errstate(over="ignore", invalid="ignore"):
                    values = np.where(hit, np.float32(size) * np.sign(values), values).astype(np.float32)
            gradients.append(None if how == "some" and numbers.random() < 0.5 else values)

        def closure():
            for p, values in zip(self.params, gradients):
                self.library.set_gradient(p, values)
            return 7.0

        if how == "closure":
            assert self.optimizer.step(closure) == 7.0
        else:
            closure()
            self.optimizer.step()

    def run(self, operation):
        """Runs an operation and returns a further world, if it makes one."""
        kind, _, *rest = operation
        groups = self.optimizer.param_groups
        if kind == "step":
            self.step(*rest)
        elif kind == "schedule" and len(self.schedules) < 4:
            self.schedules.append(self.schedule(*rest))
            self.specs.append(rest[0])
        elif kind in ("advance", "jump") and self.schedules:
            each = rest[1] if kind == "advance" else False
            for schedule in self.schedules if each else [self.schedules[operation[1] % len(self.schedules)]]:
                if type(schedule).__name__ == "ReduceLROnPlateau":
                    schedule.step(rest[0] if kind == "advance" else 1.0)
                elif kind == "advance" or type(schedule).__name__ == "SequentialLR":  # torch's takes no number
                    schedule.step()
                else:
                    schedule.step(rest[0])
        elif kind == "group" and len(groups) < 5:
            made = self.group(rest[0])
            if "param_names" in groups[0]:
                made["params"] = [(f"p{id(p)}", p) for p in made["params"]]
            self.optimizer.add_param_group(made)
        elif kind == "save":
            self.saved.append(self.state())
        elif kind == "load" and self.saved:
            self.load(self.saved[rest[0] % len(self.saved)], rest[1])
        elif kind == "rebuild":
            self.rebuild(*rest)
        elif kind == "copy":
            made = self.copied(rest[0])
            return made if made is not self else None
        elif kind == "set":
            group = groups[rest[0] % len(groups)]
            if rest[1] in group and not group.get("nesterov"):
                group[rest[1]] = rest[2]
        elif kind == "write":
            values = np.random.default_rng(rest[0])
            p = self.params[rest[0] % len(self.params)]
            self.library.write(p, values.standard_normal(self.library.shape(p)).astype(np.float32))
        elif kind == "leave":
            # A parameter leaves the last group, and comes back at its end.
            params = groups[-1]["params"]
            params.append(params.pop(0))
        return None
