"""Pipelines are counted when they are dispatched, not when they are compiled; tests/modes.py builds on it."""

import dispatched
import modes
import numpy as np
from dispatched import Mode

from grilly import _core


def test_what_is_dispatched_is_counted_by_variant_and_constants(vulkan):
    engine = _core.engine(vulkan)
    x = engine.upload(np.ones((3, 64), np.float32))
    engine.call("softmax", [x], {}).numpy()
    before = dispatched.Totals.now()
    waiting = [engine.call("softmax", [x], {}) for _ in range(2)]
    # What nothing has read is submitted for the count, and not counted for the next test.
    dispatched.add("a test", before, dispatched.Totals.now())
    ((name, count),) = dispatched.tests.pop("a test").items()
    assert modes.variant_of(name) == "softmax" and count == len(waiting)
    assert dispatched.costs.pop("a test") > 0


def test_every_variant_that_needs_matrix_cores_says_so():
    built = dispatched.built()
    assert {"softmax", "linear-shuffle", "linear-matrix-float16"} <= built.keys()
    assert "coopmat_f16_f32_16x16x16" in built["linear-matrix-float16"].needs
    assert built["linear-shuffle"].subgroups and not built["softmax"].subgroups


def test_tests_are_chosen_for_all_pipelines():
    tests = {"both": {"a []": 2, "b [1]": 1}, "one": {"b [1]": 1}, "other": {"b [2]": 5}}
    costs = {"both": 2.0, "one": 0.5, "other": 9.0}
    assert modes.chosen(tests, ["b [1]"], costs) == ["one"]
    assert modes.chosen(tests, ["b [1]"], costs | {"one": 2.5}) == ["one"], "the other compiles a pipeline more"
    assert modes.chosen(tests, ["b [1]"], costs | {"one": 3.5}) == ["both"]
    assert modes.chosen(tests, ["a []", "b [1]"], costs | {"one": 1.5}) == ["both"], "less for each of two"
    assert modes.chosen(tests, ["a []", "b [1]", "b [2]"], costs) == ["both", "one", "other"]
    record = {Mode(True, "native", True): {"both": tests["both"]}, Mode(False, "128", True): {"other": tests["other"]}}
    assert modes.pipelines(modes.native(record)) == {"a []", "b [1]"}
    assert [mode.name for mode in record] == ["optimised-native-validated", "unoptimised-128-validated"]
    assert all(Mode.named(mode.name) == mode for mode in record)
