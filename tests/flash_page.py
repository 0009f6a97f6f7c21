"""Writes docs/reference/flash-configurations.md: which tuned configuration compiles for which GPU, and what stops it.

`.venv/bin/python tests/flash_page.py` writes it; tests/ops/test_flash_export.py finds whether it is current.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from grilly import _core, kernels

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "flash-configurations.md"
REMEDY = "the page is not current: run `.venv/bin/python tests/flash_page.py`"
TARGETS = {"spirv": "SPIR-V", "cuda": "CUDA", "ptx": "PTX", "msl": "MSL", "hlsl": "HLSL", "wgsl": "WGSL"}
ROWS = {name: value for name, value in vars(kernels.TunedConfigs).items() if not name.startswith("_")}
ROWS["default_config"] = kernels.default_config

HEAD = """# Configurations of flash attention

Which row of `kernels.TunedConfigs` compiles for which GPU, by the shared memory of a workgroup. This page is generated
by `tests/flash_page.py`; the guide is [kernels](../guides/kernels.md#flash-attentions-configurations).

In float16 shared memory has the keys and the values of a block, `4 x block_kv x head_dim` bytes; queries, scores and
results are in registers. In float32 it has 32 columns of the queries and of the keys, or the scores, and as many
columns of the values.

## Limits

Bytes of a workgroup by architecture; a dash where it does not have the language. `any` is what every device has.
Sources, by language:

- CUDA: NVIDIA's CUDA Programming Guide, technical specifications per compute capability (48 KiB may be static, more is
  dynamic);
- Vulkan: the specification's required limit for `any`; what NVIDIA's driver, Mesa's for AMD (RADV; AMD's own driver
  reports 32,768), Intel's own driver (Mesa's reports 65,536 and more) and MoltenVK report;
- Metal: Apple's Metal Feature Set Tables (`any` is family Apple3);
- Direct3D 12: `groupshared` variables of compute shaders;
- WebGPU: the default of `maxComputeWorkgroupStorageSize`, and what a device can be asked for where it runs on Metal or
  Direct3D 12.

"""
MIDDLE = """
## Rows

A cell has the architectures of the row that have the language, and whether the memory is dynamic; of those for which
the row does not compile the bytes and the nearest blocks that fit. `yes` and `no` are of GPUs that the row is not named
after.

"""
GPUS = """
## By GPU

What float16 without a configuration takes for the head of its row:
`get("flash_attention", head_dim=..., use_half=True).compile(target, architecture=...)`.

"""


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def blocks(config: kernels.FlashAttentionConfig) -> str:
    return " x ".join(map(str, dataclasses.astuple(config)[:3]))


def limits() -> str:
    rows = []
    for name, gpus, row, found in _core.kernel_architectures():
        limit = dict(found)
        cells = [
            f"{limit[target]:,}" if target in limit else "-" for target in ("cuda", "spirv", "msl", "hlsl", "wgsl")
        ]
        rows.append([f"`{name}`", gpus, f"`{row}`" if row else "-", *cells])
    return table(["architecture", "GPUs", "row", "CUDA, PTX", "Vulkan", "Metal", "Direct3D 12", "WebGPU"], rows)


def cell(name: str, config: kernels.FlashAttentionConfig, target: str) -> str:
    """For which architectures a row compiles, and what stops it for others."""
    kernel = kernels.get("flash_attention", hidden_dim=config.head_dim, config=config)
    known = [other for other, _, row, limit in _core.kernel_architectures() if row == name and target in dict(limit)]
    found: dict[str, list[str]] = {}
    for architecture in known or [None]:
        try:
            (row,) = kernel.compile(target, architecture=architecture).interface["dispatches"]
            what = "dynamic" if "dynamic_memory" in row else ""
        except kernels.SharedMemoryError as error:
            assert isinstance(error.nearest, kernels.FlashAttentionConfig)
            what = f"no: {error.limit:,}, {error.nearest.block_q} x {error.nearest.block_kv} fits"
        found.setdefault(what, []).append(f"`{architecture}`" if architecture else "")
    if not known:
        return next(iter(found)) or "yes"
    return "; ".join(", ".join(names) + (f" {what}" if what else "") for what, names in found.items())


def of_rows() -> str:
    rows = []
    for name, config in ROWS.items():
        kind = "float16" if config.half_precision else "float32"
        need = f"{kernels.required_shared_memory(config):,}"
        rows.append(
            [f"`{name}`", f"{blocks(config)}, {kind}", need, *(cell(name, config, target) for target in TARGETS)]
        )
    return table(["row", "blocks", "bytes", *TARGETS.values()], rows)


def of_gpus() -> str:
    rows = []
    for name, gpus, row, limit in _core.kernel_architectures():
        if row is None:
            continue
        config = ROWS[row]
        kernel = kernels.get("flash_attention", hidden_dim=config.head_dim, head_dim=config.head_dim, use_half=True)
        for target in ("cuda", "spirv", "msl"):
            if target in dict(limit):
                told = kernel.compile(target, architecture=name).interface["configuration"]
                size = f"{told['block_q']} x {told['block_kv']} x {told['head_dim']}"
                rows.append([f"`{name}`", gpus, TARGETS[target], size, f"{told['shared_memory']:,}", told["reason"]])
    return table(["architecture", "GPUs", "target", "blocks", "bytes", "why"], rows)


def page() -> str:
    return HEAD + limits() + MIDDLE + of_rows() + GPUS + of_gpus()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
