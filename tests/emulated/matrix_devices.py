"""Devices by the matrices that they multiply, which the layer of this folder gives a driver that has none."""

import os
from dataclasses import dataclass
from pathlib import Path

import lavapipe
from vulkan_layers import VALIDATION, built, mock_driver, newest_validation

HERE = Path(__file__).parent
LAYER = "VK_LAYER_GRILLY_matrix"


@dataclass(frozen=True)
class Device:
    """Matrices, and which lane holds what of them: lanes of a row, and the columns of a run (emitter.h)."""

    matrices: str
    rows: str
    #: Lanes that the hardware may have.
    lanes: tuple[int, ...]


def of(shape: str, integers: str) -> str:
    return f"f16 {shape}, bf16 {shape}, s8 {integers}"


DEVICES = {
    "nvidia": Device(of("16x16x16", "16x16x32"), "4 2", (32,)),
    # Its layout is of no kind that the engine knows: here another such, as lanes of RDNA 3 hold operands twice.
    "amd": Device(of("16x16x16", "16x16x16"), "4 2 mirrored", (32, 64)),
    "intel": Device(of("8x16x16", "8x16x32"), "8 2", (8, 16)),
    "intel-mirrored": Device(of("8x16x16", "8x16x32"), "8 2 mirrored", (8, 16)),
    "lavapipe": Device(of("8x8x8", "8x8x8"), "8 1", (8,)),
    "lavapipe-rows": Device(of("8x8x8", "8x8x8"), "1 8", (8,)),
    "lavapipe-mirrored": Device(of("8x8x8", "8x8x8"), "8 1 mirrored", (8,)),
}


def environment(device: Device, folder: Path, lanes: int = 0, width: str = lavapipe.NATIVE) -> dict[str, str]:
    """The variables under which a process sees this device, with the driver's lanes or others; calls are validated."""
    built(folder, LAYER, "matrices of any device", *sorted(HERE.glob("*.cpp")))
    modules, validation = folder / "modules", folder / "validation"
    for path in (modules, validation):
        path.mkdir(exist_ok=True)
    return lavapipe.environment(width) | {
        "GRILLY_DEBUG": "1",
        "GRILLY_MATRICES": device.matrices,
        "GRILLY_MATRIX_ROWS": device.rows,
        "GRILLY_MATRIX_LANES": str(lanes or ""),
        "GRILLY_MATRIX_MODULES": str(modules),
        # The loader puts the layer that it finds last next to the driver: validation sees the matrices.
        "VK_LAYER_PATH": os.pathsep.join([str(newest_validation(validation)), str(folder)]),
        "VK_INSTANCE_LAYERS": os.pathsep.join([VALIDATION, LAYER]),
    }


def mocked(device: Device, folder: Path, lanes: int) -> dict[str, str]:
    """The same for the driver that runs nothing."""
    driver = str(mock_driver(folder))
    drivers = {"VK_DRIVER_FILES": driver, "VK_ICD_FILENAMES": driver}
    memory = str(32 << 10)
    return environment(device, folder, lanes) | drivers | {"GRILLY_MATRIX_MOCK": "1", "GRILLY_MATRIX_MEMORY": memory}
