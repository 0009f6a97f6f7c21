"""Random programs of optimisers and schedules beside torch, compared after every operation."""

import pytest
from fuzz import optimizers
from fuzz.optimizer_programs import draw


@pytest.mark.parametrize("part", range(8))
def test_programs_end_where_torchs_do(part):
    operations = sum(optimizers.run(draw(seed)) for seed in range(250 * part, 250 * part + 250))
    assert operations > 1000
