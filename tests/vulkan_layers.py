"""Vulkan layers that the tests compile, and Khronos' validation layer above them."""

import functools
import json
import subprocess
from pathlib import Path

from conftest import need

VALIDATION = "VK_LAYER_KHRONOS_validation"
#: Where distributions install layers' manifests.
EXPLICIT = [Path(folder) / "vulkan" / "explicit_layer.d" for folder in ("/usr/share", "/usr/local/share", "/etc")]
HEADERS = [Path(folder) / "vulkan" / "vk_layer.h" for folder in ("/usr/include", "/usr/local/include")]
#: Debian's chromium-common has a validation layer of Vulkan 1.4, which knows bfloat16, and Khronos' mock driver.
CHROMIUM = Path("/usr/lib/chromium")
COMPILERS = {".c": ["cc"], ".cpp": ["c++", "-std=c++17"]}


@functools.cache
def built(folder: Path, name: str, description: str, *sources: Path) -> Path:
    """Compiles a layer into a folder, and writes its manifest there."""
    need("profiles", any(path.exists() for path in HEADERS), "vulkan/vk_layer.h is missing (Debian: libvulkan-dev)")
    library = folder / f"lib{name}.so"
    options = ["-shared", "-fPIC", "-O1", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror", "-o", library]
    subprocess.run([*COMPILERS[sources[0].suffix], *options, *sources], check=True)
    manifest(folder, name, description, library)
    return folder


def manifest(folder: Path, name: str, description: str, library: Path, **more) -> None:
    about = {"name": name, "type": "GLOBAL", "library_path": str(library), "api_version": "1.3.239"}
    about |= {"implementation_version": "1", "description": description, **more}
    text = json.dumps({"file_format_version": "1.2.0", "layer": about})
    (folder / f"{name}.json").write_text(text, encoding="utf-8")


def of_chromium(library: str) -> Path:
    path = CHROMIUM / library
    need("swiftshader", path.exists(), f"{path} is missing (Debian: chromium-common)")
    return path


def newest_validation(folder: Path) -> Path:
    """Writes a manifest for Chromium's validation layer into a folder."""
    tells = {"instance_extensions": [{"name": "VK_EXT_debug_utils", "spec_version": "1"}, VALIDATION_FEATURES]}
    manifest(folder, VALIDATION, "Khronos' layer", of_chromium("libVkLayer_khronos_validation.so"), **tells)
    return folder


VALIDATION_FEATURES = {"name": "VK_EXT_validation_features", "spec_version": "2"}


def mock_driver(folder: Path) -> Path:
    """Writes a manifest for Khronos' driver that runs nothing."""
    about = {"library_path": str(of_chromium("libVkICD_mock_icd.so")), "api_version": "1.4.0"}
    path = folder / "mock_icd.json"
    path.write_text(json.dumps({"file_format_version": "1.0.1", "ICD": about}), encoding="utf-8")
    return path
