"""Tables in notebooks, of values that stay what they are: a dict, a text, times."""

import grilly
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


def test_times_are_a_table_with_bars():
    taken = Profile([KernelTime("layer <0>", "linear", 2, 0.75), KernelTime("layer 1", "softmax", 1, 0.25)])
    shown = taken._repr_html_()
    assert "layer &lt;0&gt;" in shown and "1000.000 ms in 3 dispatches" in shown
    assert [part in shown for part in ("width:75.0%", "width:25.0%")] == [True, True]
    assert str(Profile()).startswith("nothing was timed") and "nothing was timed" in Profile()._repr_html_()
