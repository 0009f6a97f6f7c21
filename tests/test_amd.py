"""The comparison of amd.py finds what is worse, by kernel, family and both numbers; the table is as amd.py wrote it."""

from dataclasses import replace

import amd
import pytest

TABLE = amd.read()
#: A pipeline with matrices, one with dot products, and one with neither.
MATRIX = next(row for row in TABLE.values() if row.wmma)
DOT = next(row for row in TABLE.values() if row.dot)
PLAIN = next(row for row in TABLE.values() if not (row.wmma or row.dot or row.spilled_vgprs) and row.estimate > 9999)
SLOWER = round(PLAIN.estimate * 1.06)


def compared(row, **changes):
    return amd.faults(amd.keyed([replace(row, **changes)]), amd.keyed([row]))


def test_the_table_has_every_family_and_no_faults_beside_itself():
    assert {family for family, _ in TABLE} == set(amd.FAMILIES)
    assert len(TABLE) > 1000 and amd.faults(TABLE, TABLE) == []


def test_a_written_table_is_read_back(tmp_path):
    amd.write(TABLE, tmp_path / "amd.csv")
    assert (tmp_path / "amd.csv").read_bytes() == amd.TABLE.read_bytes()


@pytest.mark.parametrize(
    ("row", "changes", "says"),
    [
        (PLAIN, {"spilled_vgprs": 3}, "spills 3 vector registers, 0 in the table"),
        (MATRIX, {"wmma": 0}, f"has 0 v_wmma instructions, {MATRIX.wmma} in the table"),
        (DOT, {"dot": DOT.dot - 1}, f"has {DOT.dot - 1} v_dot4 instructions, {DOT.dot} in the table"),
        (PLAIN, {"estimate": SLOWER}, f"is estimated at {SLOWER} cycles, {PLAIN.estimate} in the table (+6.0%)"),
    ],
)  # fmt: skip
def test_what_is_worse_is_named_with_both_numbers(row, changes, says):
    [fault] = compared(row, **changes)
    assert fault.startswith(f"{row.pipeline} on {row.family} ") and says in fault


def test_what_is_no_worse_passes():
    assert compared(PLAIN, estimate=int(PLAIN.estimate * 1.04)) == []
    assert compared(PLAIN, vgprs=1, spilled_sgprs=9, occupancy=1, estimate=1) == []
    assert compared(MATRIX, wmma=MATRIX.wmma + 1) == []


def test_a_pipeline_of_one_alone_is_named():
    other = replace(PLAIN, pipeline="other 1", spilled_vgprs=7)
    found = amd.faults(amd.keyed([other]), amd.keyed([PLAIN]))
    name = f"other 1 on {PLAIN.family}"
    assert found == [
        f"{name} is not in the table and spills 7 vector registers, 0 in the table",
        f"{PLAIN.pipeline} on {PLAIN.family} is in the table alone",
    ]


def test_spills_of_pipelines_outside_the_table_are_named():
    assert amd.spills(amd.keyed([PLAIN])) == []
    [spill] = amd.spills(amd.keyed([replace(PLAIN, pipeline="other 1", spilled_vgprs=7)]))
    assert spill == f"other 1 on {PLAIN.family} spills 7 vector registers"


def test_a_line_of_the_compiler_is_a_row():
    names = ("SGPRs", "VGPRs", "Spilled SGPRs", "Spilled VGPRs", "LDS size", "Subgroups per SIMD", "Inverse Throughput")
    numbers = {name: float(place) for place, name in enumerate(names)}
    found = {"name": "rope", "constants": [1, 0], "subgroup": 64, "wmma": 8, "dot": 9, "numbers": numbers}
    assert amd.row_of("navi31", found) == amd.Row("navi31", "rope 1 0", 64, 0, 1, 2, 3, 4, 5, 6, 8, 9)
