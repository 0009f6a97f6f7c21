"""Runs the library for Metal on the CPU: its three files in one unit for g++, through the stand-in of `native`.

Metal's words are macros, a workgroup's barrier is one of the standard library, and each invocation is a thread. Address
spaces mean nothing here.
"""

from __future__ import annotations

import ctypes
import re
import struct
from pathlib import Path

import numpy as np
from native import HEADER, HOST, LAUNCH, MSL_BARRIER, WORDS, built

from grilly.metal import Function

SHADERS = ("bitlinear", "quantization", "activation")
#: What the stand-in's header lacks.
MORE = """
typedef unsigned char uchar;
static inline float exp(float a) { return ::expf(a); }
static inline float tanh(float a) { return ::tanhf(a); }
static inline float fabs(float a) { return ::fabsf(a); }
"""
#: Metal's built-in values of one axis, as expressions of CUDA's.
BUILTINS = {
    "threadgroup_position_in_grid": "blockIdx.x",
    "threadgroups_per_grid": "gridDim.x",
    "thread_position_in_threadgroup": "threadIdx.x",
    "threads_per_threadgroup": "blockDim.x",
    "thread_position_in_grid": "blockIdx.x * blockDim.x + threadIdx.x",
    "threads_per_grid": "gridDim.x * blockDim.x",
}
KERNEL = re.compile(r"^kernel void (\w+)\((.*?)\)\n\{", re.DOTALL | re.MULTILINE)
ARGUMENT = re.compile(r"([^,]*?) (\w+) \[\[(\w+)(?:\((\d+)\))?\]\]")


def arguments(text: str) -> dict[str, list[tuple[str, str, str, str]]]:
    """Type, name, attribute and its number of each argument of each kernel."""
    return {name: ARGUMENT.findall(" ".join(signature.split())) for name, signature in KERNEL.findall(text)}


def source(texts: list[str]) -> str:
    """All files as C++ with a function `launch_NAME` of each kernel."""
    body, launches = "", ""
    for text in texts:
        for name, given in arguments(text).items():
            passed = []
            for kind, _, attribute, number in given:
                kind = re.sub(r"\b(device|constant)\b", "", kind).strip()
                if attribute != "buffer":
                    passed.append(BUILTINS[attribute])
                elif kind.endswith("&"):
                    passed.append(f"*(grilly::{kind.rstrip('&')}*)parameters")
                else:
                    kind = re.sub(r"\b(uchar)\b", r"grilly::\1", kind)
                    passed.append(f"({kind})b[{number}]")
            launch = LAUNCH.replace("NAME", name).replace("launch(", f"launch_{name}(")
            launches += launch.replace("ARGUMENTS", ", ".join(passed))
        text = (
            text.replace("#include <metal_stdlib>", "").replace("using namespace metal;", "").replace("precise::", "")
        )
        text = re.sub(r"^    threadgroup ", "    static ", text, flags=re.MULTILINE)
        body += re.sub(r" \[\[[^\]]*\]\]", "", text)
    words = WORDS.replace("define", "undef")
    return f"{HOST}namespace grilly {{\n{HEADER.read_text()}{MORE}{WORDS}{MSL_BARRIER}{body}}}\n{words}{launches}"


class Library:
    """The functions of a folder that `python -m grilly export --metal` wrote."""

    def __init__(self, folder: Path, out: Path, changes: tuple[str, str] = ("", "")) -> None:
        texts = [(folder / f"{shader}.metal").read_text().replace(*changes) for shader in SHADERS]
        self.made = built(source(texts), out / "library")

    def run(
        self,
        function: Function,
        buffers: list[np.ndarray | None],
        numbers: dict[str, float],
        groups: int,
        threads: int,
    ) -> None:
        """Runs a function on arrays, which get its results; None is a buffer that is left out."""
        names = [name for name, *_ in function.parameters]
        given = {name: float(default) for name, _, default in function.parameters if default is not None} | numbers
        assert given.keys() == set(names), (given, names)
        kinds = "".join("f" if kind == "float" else "I" for _, kind, _ in function.parameters)
        words = [given[name] if kind == "float" else int(given[name]) for name, kind, _ in function.parameters]
        block = ctypes.create_string_buffer(struct.pack(f"<{kinds}", *words))
        assert len(buffers) == len(function.buffers)
        assert all(value is not None or name.endswith("?") for value, (name, _) in zip(buffers, function.buffers))
        # A buffer that is left out cannot be read.
        pointers = (ctypes.c_void_p * len(buffers))(*(None if b is None else b.ctypes.data for b in buffers))
        grid, block_size = (ctypes.c_uint * 3)(groups, 1, 1), (ctypes.c_uint * 3)(threads, 1, 1)
        getattr(self.made, f"launch_{function.name}")(pointers, block, grid, block_size)
