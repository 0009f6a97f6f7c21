"""Devices by their public limits: devices/*.toml, where every value stands under its source, and the layer by which
lavapipe appears as one of them."""

import os
from dataclasses import dataclass
from pathlib import Path

import lavapipe
from vulkan_layers import EXPLICIT, VALIDATION, built

try:
    import tomllib
except ModuleNotFoundError:
    import tomli as tomllib

HERE = Path(__file__).parent
DEVICES = HERE / "devices"
LAYER = "VK_LAYER_GRILLY_profile"
#: Bits of VkMemoryPropertyFlags, and VkSubgroupFeatureFlags.
MEMORY = {"local": 1, "visible": 2, "coherent": 4, "cached": 8}
SUBGROUPS = "basic vote arithmetic ballot shuffle shuffle_relative clustered quad".split()
TYPES = {"other": 0, "integrated": 1, "discrete": 2, "virtual": 3, "software": 4}
TEXTS = ("deviceName", "driverName")
#: lavapipe's subgroup sizes, by the bits of its vectors.
WIDTHS = {lavapipe.NATIVE: 8} | lavapipe.SUBGROUPS
LISTS = ("features", "extensions", "heaps", "types")


def names() -> list[str]:
    return sorted(path.stem for path in DEVICES.glob("*.toml"))


def sections(name: str) -> dict[str, dict]:
    """The values of each source."""
    return tomllib.loads((DEVICES / f"{name}.toml").read_text(encoding="utf-8"))


def values(name: str) -> dict:
    """All values of a device."""
    return {key: value for section in sections(name).values() for key, value in section.items() if key != "source"}


def numbers(key: str, value) -> list:
    """What Vulkan's structures hold."""
    if key == "apiVersion":
        major, minor, patch = map(int, value.split("."))
        return [major << 22 | minor << 12 | patch]
    if key == "deviceType":
        return [TYPES[value]]
    if key == "subgroupSupportedOperations":
        return [sum(1 << SUBGROUPS.index(each) for each in value)]
    if isinstance(value, float):
        return [value]
    return [int(each) for each in (value if isinstance(value, list) else [value])]


def width(device: dict) -> str | None:
    """The bits of lavapipe's vectors with the most lanes that the device may give a subgroup, `None` without such."""
    least, most = device["minSubgroupSize"], device["maxSubgroupSize"]
    return max((bits for bits, lanes in WIDTHS.items() if least <= lanes <= most), key=WIDTHS.__getitem__, default=None)


@dataclass(frozen=True)
class Memory:
    """Bytes of each device-local heap: what the driver says is left for a process, and what it gives."""

    budget: int = 1 << 62
    room: int = 1 << 62


def lines(device: dict, memory: Memory) -> list[str]:
    """What the layer reads. Where lavapipe's subgroups have no size of the device, it offers no operations of them."""
    heaps = [
        (heap["bytes"], heap["local"], *(min(heap["bytes"], most if heap["local"] else heap["bytes"]) for most in pair))
        for heap in device["heaps"]
        for pair in [(memory.budget, memory.room)]
    ]
    types = [(kind["heap"], sum(MEMORY[flag] for flag in kind["flags"])) for kind in device["types"]]
    own = {"lanes": WIDTHS[width(device)]} if width(device) else {"lanes": 0, "subgroupSupportedOperations": ["basic"]}
    told = [(key, value) for key, value in (device | own).items() if key not in (*TEXTS, *LISTS)]
    return [
        *(f"value {key} {' '.join(map(repr, numbers(key, value)))}" for key, value in told),
        *(f"text {key} {device[key]}" for key in TEXTS),
        *(f"feature {each}" for each in device["features"]),
        *(f"extension {each}" for each in device["extensions"]),
        *(f"heap {size} {int(local)} {budget} {room}" for size, local, budget, room in heaps),
        *(f"type {heap} {bits}" for heap, bits in types),
    ]


def layer(folder: Path) -> Path:
    """Builds the layer; its folder has the manifest, too."""
    return built(folder, LAYER, "another device's limits", HERE / "layer.c")


def environment(device: dict, folder: Path, memory: Memory) -> dict[str, str]:
    """The variables under which a process sees this device alone, and Khronos' layer validates calls for it."""
    profile = folder / "profile.txt"
    profile.write_text("\n".join([*lines(device, memory), ""]), encoding="utf-8")
    return lavapipe.environment(width(device) or lavapipe.NATIVE, optimised=True) | {
        "GALLIVM_PERF": "",
        "GRILLY_PROFILE": str(profile),
        "GRILLY_DEBUG": "1",
        # The loader puts the layer that it finds last next to the driver: validation sees what the other reports.
        "VK_LAYER_PATH": os.pathsep.join([*(str(path) for path in EXPLICIT), str(layer(folder))]),
        "VK_INSTANCE_LAYERS": os.pathsep.join([VALIDATION, LAYER]),
    }
