"""Tables in notebooks, of values that stay what they are: a dict, a text, times."""

from xml.etree import ElementTree

import grilly
from grilly.plan_drawing import collapsed, drawn, read
from grilly.profiling import KernelTime, Profile


def test_facts_are_a_dict_and_a_table():
    facts = grilly.info()
    assert type(facts).__mro__[1] is dict and facts == dict(facts)
    shown = facts._repr_html_()
    assert all(row["name"] in shown for row in facts["devices"]) and facts["cpu"]["name"] in shown
    assert shown.count("<tr>") == 2 + len(facts["devices"])


def test_a_plan_is_a_text_and_a_table(cpu_model):
    plan = cpu_model.plan
    steps = [line for line in plan.splitlines() if " -> " in line]
    assert plan._repr_html_().count("<tr>") == 1 + len(steps) > 10
    assert "numerics: run" in plan._repr_html_().partition("<details>")[2]


def test_a_plan_is_drawn(cpu_model):
    plan = cpu_model.plan
    drawing = ElementTree.fromstring(plan.drawing())
    assert plan.drawing() in plan._repr_html_()
    words = ["".join(text.itertext()) for text in drawing.iter("text")]
    assert "× 2" in words  # two layers that are alike
    named = [line.rpartition(" as ")[2] for line in plan.splitlines() if " -> " in line]
    once = [name for name in named if not name.startswith("layer 1 ")]
    assert len(list(drawing.iter("rect"))) == len(once) == len(words) - 1
    assert all(any(word.endswith(name.replace("layer 0 ", "")) for word in words) for name in once)


def test_layers_that_differ_are_drawn_apart_and_lines_end_where_results_are_read():
    steps = [
        ("words", "embedding_sum", "ids[T], table[9, 8]"),
        ("layer 0 in + layer 0 gelu", "linear", "words[T, 8], w0+b0[8, 8]"),
        ("layer 0 out", "residual_layer_norm", "layer 0 gelu[T, 8], words[T, 8]"),
        ("layer 1 in + layer 1 gelu", "linear", "layer 0 out[T, 8], w1[8, 8]"),
        ("layer 1 out", "residual_layer_norm", "layer 1 gelu[T, 8], layer 0 out[T, 8]"),
        ("layer 2 in", "matmul", "layer 1 out[T, 8], w2[8, 8]"),
        ("moments", "softmax_moments", "layer 2 in[T, 8]"),
        ("<end>", "pool", "moments mean[T, 8], layer 2 in[T, 8]"),
    ]
    assert collapsed(steps) == ([0, 1, 2, 1, 2, 5, 6, 7], [(0, 0, 1), (1, 2, 2), (5, 5, 1), (6, 7, 1)])
    assert [read(steps, at) for at in range(len(steps))] == [[], [0], [0, 1], [2], [2, 3], [4], [5], [5, 6]]
    drawing = drawn(steps)
    assert drawing.count("<rect") == 6 and drawing.count("<path") == 1 + 7 and "&lt;end&gt;" in drawing
    assert drawn([]).count("<rect") == 0


def test_times_are_a_table_with_bars():
    taken = Profile([KernelTime("layer <0>", "linear", 2, 0.75), KernelTime("layer 1", "softmax", 1, 0.25)])
    shown = taken._repr_html_()
    assert "layer &lt;0&gt;" in shown and "1000.000 ms in 3 dispatches" in shown
    assert [part in shown for part in ("width:75.0%", "width:25.0%")] == [True, True]
    assert str(Profile()).startswith("nothing was timed") and "nothing was timed" in Profile()._repr_html_()
