"""Barriers under the validation layer's synchronisation validation: none is missing, and a missing one is reported."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import need

TESTS = Path(__file__).parent.parent
# What is recorded once and submitted again, and what is recorded call by call.
SCRIPT = """
import json, sys
import numpy as np
from grilly import VulkanSentenceTransformer, functional, testing, to_vulkan
testing.inject_fault(*sys.argv[2:]) if sys.argv[2:] else None
if "encode" in sys.argv[1]:
    with VulkanSentenceTransformer("fixtures/tiny-bert", device="vulkan") as model:
        model.encode(["one text", "and another one, which is longer"])
        model.encode(["a second batch"])
else:
    x = to_vulkan(np.ones((4, 64), np.float32))
    for _ in range(3):
        x = functional.gelu(functional.linear(x, np.eye(64, dtype=np.float32)))
    x.numpy()
print(json.dumps(testing.validation_messages()))
"""


def messages(way: str, *fault: str) -> list[str]:
    environment = os.environ | {"GRILLY_DEBUG": "sync", "GRILLY_STRICT": "1"}
    command = [sys.executable, "-c", SCRIPT, way, *fault]
    finished = subprocess.run(command, cwd=TESTS, env=environment, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    return list(json.loads(finished.stdout.splitlines()[-1]))


@pytest.mark.parametrize("way", ["encode", "arrays"])
def test_a_missing_barrier_is_reported_and_none_is_missing(vulkan, way):
    installed = any(Path("/usr/share/vulkan/explicit_layer.d").glob("VkLayer_khronos_validation*.json"))
    need("validation", installed, "the layer is not installed (Debian: vulkan-validationlayers)")
    assert messages(way) == []
    assert any("SYNC-HAZARD" in message for message in messages(way, "barrier"))
