"""Runs exported CUDA C++ and MSL on the CPU: g++, the header of the exported CUDA, and a thread per invocation.

CUDA's words are macros here, and a workgroup's barrier is one of the standard library. Of MSL, the helpers of
SPIRV-Cross are left out, which the header replaces; several components at once become methods, numbers get their `f`.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import numpy as np
from launch_webgpu import initial, parameters, results

from grilly.kernels import Compiled

HEADER = Path(__file__).parent.parent / "src" / "export" / "cuda.h"
#: What the lanes of a warp do together.
WARPS = Path(__file__).parent / "warps.h"

#: What CUDA has and g++ has not.
HOST = """
#include <barrier>
#include <thread>
#include <vector>
#include <cmath>
#include <cstring>
struct Place { unsigned x, y, z; };
static thread_local Place threadIdx, blockIdx;
static Place blockDim, gridDim;
static std::barrier<>* meeting;
#define __global__
#define __shared__ static
#define __launch_bounds__(...)
static void __syncthreads() { meeting->arrive_and_wait(); }
"""

#: Every workgroup after another, each invocation a thread; one that returns no longer takes part in barriers.
LAUNCH = """
extern "C" void launch(void** b, void* parameters, const unsigned* grid, const unsigned* block) {
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {block[0], block[1], block[2]};
    unsigned count = block[0] * block[1] * block[2];
    for (unsigned group = 0; group < grid[0] * grid[1] * grid[2]; group++) {
        std::barrier<> all(count);
        meeting = &all;
        std::vector<std::thread> threads;
        for (unsigned i = 0; i < count; i++)
            threads.emplace_back([=, &all] {
                blockIdx = {group % grid[0], group / grid[0] % grid[1], group / grid[0] / grid[1]};
                threadIdx = {i % block[0], i / block[0] % block[1], i / block[0] / block[1]};
                grilly::NAME(ARGUMENTS);
                all.arrive_and_drop();
            });
        for (auto& thread : threads) thread.join();
    }
}
"""

#: MSL's built-in values, as expressions of CUDA's.
BUILTINS = {
    "thread_index_in_simdgroup": "threadIdx.x % 32u",
    "simdgroup_index_in_threadgroup": "threadIdx.x / 32u",
    "threads_per_simdgroup": "32u",
    "threadgroup_position_in_grid": "uint3(blockIdx.x, blockIdx.y, blockIdx.z)",
    "threadgroups_per_grid": "uint3(gridDim.x, gridDim.y, gridDim.z)",
    "thread_position_in_threadgroup": "uint3(threadIdx.x, threadIdx.y, threadIdx.z)",
    "thread_index_in_threadgroup": "threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)",
}
WORDS = "#define thread\n#define device\n#define constant\n#define kernel\n#define threadgroup\n#define precise\n"
MSL_BARRIER = "#define threadgroup_barrier(...) __syncthreads()\n"


#: Dynamic shared memory, which a launch gives, and an array of as many bytes as any kernel needs.
DYNAMIC = ("extern __shared__ uint4 dynamic_memory[];", "static uint4 dynamic_memory[1 << 14];")


def of_cuda(text: str, bindings: int) -> str:
    text = text.replace(*DYNAMIC)
    block = re.search(r"const (\w+) own_parameters", text)
    given = [f"b[{index}]" for index in range(bindings)]
    given += [f"*(grilly::{block[1]}*)parameters"] if block else []
    matrices = "lane_of_warp" in text
    return HOST + text + (WARPS.read_text() if matrices else "") + launch("main0", given, matrices)


def launch(name: str, given: list[str], warps: bool) -> str:
    """The function that runs a kernel of this name with these arguments."""
    text = LAUNCH.replace("NAME", name).replace("ARGUMENTS", ", ".join(given))
    if warps:
        made = "warps.clear(); while (warps.size() < count / 32) warps.push_back(std::make_unique<std::barrier<>>(32));"
        text = text.replace("meeting = &all;", f"meeting = &all; {made}")
        text = text.replace("all.arrive_and_drop();", "all.arrive_and_drop(); warps[i / 32]->arrive_and_drop();")
    return text


def of_msl(text: str, name: str, bindings: int) -> str:
    matrices = "metal_simdgroup_matrix" in text
    own = text[text.index("\ntemplate <typename E>") : text.index("#undef EACH")] if matrices else ""
    text = own + text[text.index("\nstruct ") :].replace("precise::", "")
    text = re.sub(r"\.([xyzw]{2,4})\b", r".\1()", text)
    text = re.sub(r"(\d\.\d+(?:e[+-]?\d+)?)", r"\1f", text)
    text = re.sub(r"^    threadgroup ", "    static ", text, flags=re.M)
    text = text.replace("static inline __attribute__((always_inline))", "static inline")
    (signature,) = re.findall(rf"kernel void {name}\((.*)\)\n", text)
    given = []
    for argument in signature.split(", "):
        declared, attribute = re.fullmatch(r"(.*) \[\[(.*)\]\]", argument).groups()
        if attribute in BUILTINS:
            given.append(f"grilly::{BUILTINS[attribute]}" if "uint3" in BUILTINS[attribute] else BUILTINS[attribute])
            continue
        number = int(re.fullmatch(r"buffer\((\d+)\)", attribute)[1])
        pointer = "parameters" if number == bindings else f"b[{number}]"
        kind = re.sub(r"\b(device|constant|const)\b", "", declared.rsplit(" ", 1)[0]).strip()
        given.append(pointer if kind == "void*" else f"*(grilly::{kind.rstrip('&')}*){pointer}")
    # Built-in values are references in MSL's functions, but values in its kernel.
    text = re.sub(r" \[\[[^\]]*\]\]", "", text)
    head = f"namespace grilly {{\n{HEADER.read_text()}\n}}\n"
    if matrices:
        head += f"#define METAL\n{WARPS.read_text()}"
    text = f"{head}namespace grilly {{\n{WORDS}{MSL_BARRIER}{text}\n}}\n"
    text += WORDS.replace("define", "undef")
    return HOST + text + launch(name, given, matrices)


def run(compiled: Compiled, operands: list[np.ndarray], folder: Path) -> list[np.ndarray]:
    """The results of a kernel for these operands."""
    interface = compiled.interface
    # Kernels may read four numbers where fewer are left.
    data = [initial(row, operands) for row in interface["buffers"]]
    buffers = [ctypes.create_string_buffer(one, len(one) + 16) for one in data]
    for row in interface["dispatches"]:
        bindings = len(row["bindings"])
        text = compiled.code[row["shader"]].decode()
        cuda = interface["target"] == "cuda"
        source = of_cuda(text, bindings) if cuda else of_msl(text, row["entry_point"], bindings)
        library = built(source, folder / row["shader"])
        pointers = (ctypes.c_void_p * bindings)(
            *(ctypes.addressof(buffers[one["buffer"]]) + one["offset"] for one in row["bindings"])
        )
        library.launch(
            pointers,
            parameters(row["parameters"]),
            (ctypes.c_uint * 3)(*row["grid"]),
            (ctypes.c_uint * 3)(*row["workgroup_size"]),
        )
    return results(interface, lambda place: buffers[place])


def built(source: str, path: Path) -> ctypes.CDLL:
    file, library = path.with_suffix(".cpp"), path.with_suffix(".so")
    file.write_text(source)
    flags = ["-std=c++20", "-O1", "-w", "-ffp-contract=off", "-shared", "-fPIC", "-pthread"]
    done = subprocess.run(["g++", *flags, str(file), "-o", str(library)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    return ctypes.CDLL(str(library))
