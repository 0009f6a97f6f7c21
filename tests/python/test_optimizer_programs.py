"""Random programs of optimisers and schedules alone; tests/live/test_optimizer_programs.py runs them beside torch."""

import warnings

import pytest
from fuzz import optimizers
from fuzz.optimizer_programs import draw


@pytest.mark.parametrize("part", range(4))
def test_copies_pickles_and_saved_states_change_no_bit(part):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        operations = sum(optimizers.alone(draw(seed)) for seed in range(25 * part, 25 * part + 25))
    assert operations > 100


def test_the_driver_tells_a_fault_with_its_seed_and_a_short_program(monkeypatch, capsys):
    monkeypatch.setattr(optimizers, "torch", None)  # one of another version may differ
    assert optimizers.main(["--programs", "2", "--seed", "7"]) == 0
    assert "optimizers: 2 programs from seed 7" in capsys.readouterr().out

    def faulty(program):
        if any(operation[0] == "step" for operation in program):
            raise optimizers.Fault("a step")
        return len(program)

    monkeypatch.setattr(optimizers, "run", faulty)
    assert optimizers.main(["--programs", "1"]) == 1
    told = capsys.readouterr().out
    assert "seed 0: a step" in told and told.count("'step'") == 1 and "1 faults" in told
