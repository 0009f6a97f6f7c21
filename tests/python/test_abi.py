"""The extension module takes of Python only the stable ABI of 3.10: one wheel for that version and all later ones."""

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

from conftest import need

from grilly import _core

OLDEST = 0x030A0000


def declared(folder: Path) -> set[str]:
    """Names in Python's headers where the limited API of the oldest version is asked for."""
    source = f"#define Py_LIMITED_API {OLDEST:#x}\n#include <Python.h>\n"
    command = ["cc", "-E", "-P", "-I", str(folder), "-x", "c", "-"]
    text = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"\b_?Py\w+", text))


def test_every_symbol_of_python_is_in_the_stable_abi():
    headers = Path(sysconfig.get_path("include"))
    need("headers", (headers / "Python.h").exists(), f"{headers} has no Python.h (Debian: python3-dev)")
    need("nm", bool(shutil.which("nm") and shutil.which("cc")), "build-essential is not installed")
    command = ["nm", "-D", "--undefined-only", _core.__file__]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    taken = set(re.findall(r" U (_?Py\w+)$", listed.stdout, re.MULTILINE))
    assert len(taken) > 50, "it takes hardly anything of Python: is this the module?"
    assert taken <= declared(headers), f"not in the stable ABI of 3.10: {sorted(taken - declared(headers))}"
