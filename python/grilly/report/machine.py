"""Versions and settings of the machine of a report, without anything of its owner's."""

from __future__ import annotations

import getpass
import os
import platform
import re
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np

import grilly

__all__ = ["clean", "environment", "versions"]

#: Of the loader of Vulkan, and grilly's.
OWN = re.compile(r"VK_\w+|GRILLY_\w+|ALLOW_CPU_VULKAN")
#: A path with folders, of which the last name is kept.
FOLDERS = re.compile(r"(?<![\w.])(?:~[\w.-]*)?(?:/[^\s/:;,'\"]+)*/(?=[^\s/])")


@cache
def _names() -> list[str]:
    """Names of the owner and of the machine."""
    found = [Path.home().name, socket.gethostname(), socket.gethostname().partition(".")[0], platform.node()]
    with suppress(Exception):  # a user whom the system does not know
        found.append(getpass.getuser())
    return sorted({name for name in found if name}, key=len, reverse=True)


def clean(text: str) -> str:
    """A text of the system or of a driver without folders, and without names of the user and of the machine.

    Example:
        >>> from grilly.report.machine import clean
        >>> clean("cannot open /opt/some/where/libvulkan.so: ~/.cache is full")
        'cannot open libvulkan.so: .cache is full'
    """
    text = FOLDERS.sub("", text)
    for name in _names():
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "...", text)
    return text


def versions() -> dict[str, str]:
    """Versions of grilly and of what it runs on.

    Example:
        >>> from grilly.report.machine import versions
        >>> list(versions())
        ['grilly', 'python', 'numpy', 'system', 'kernel', 'libc', 'machine']
    """
    system = platform.system()
    with suppress(OSError):
        system = platform.freedesktop_os_release()["PRETTY_NAME"]
    found = {
        "grilly": grilly.__version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "numpy": np.__version__,
        "system": system,
        "kernel": f"{platform.system()} {platform.release()}",
        "libc": " ".join(platform.libc_ver()),
        "machine": platform.machine(),
    }
    return {name: clean(value) for name, value in found.items()}


def environment() -> dict[str, str]:
    """The variables of grilly and of Vulkan's loader that are set, folders left out.

    Example:
        >>> from grilly.report.machine import environment
        >>> "HOME" in environment()
        False
    """
    return {name: clean(value) for name, value in sorted(os.environ.items()) if OWN.fullmatch(name)}
