"""HLSL to DXIL by Microsoft's compiler DXC, which `make test-long` takes from the source package of compushady.

It is called through its COM interface: functions are in the order of dxcapi.h, after the five of IUnknown, two of
which are destructors on Linux.
"""

from __future__ import annotations

import ctypes
import uuid
from functools import cache
from pathlib import Path
from typing import Any

LIBRARY = Path(__file__).parent.parent / "target" / "dxc" / "libdxcompiler.so"
COMPILER = uuid.UUID("73e22d93-e6ce-47f3-b5bf-f0664f39c1b0").bytes_le  # CLSID_DxcCompiler
COMPILER_3 = uuid.UUID("228b4687-5a6a-4730-900c-9702b2203f54").bytes_le  # IDxcCompiler3
RESULT = uuid.UUID("cedb484a-d4e9-445a-b991-ca21ca157dc2").bytes_le  # IDxcOperationResult
RELEASE, COMPILE, STATUS, CODE, MESSAGES, POINTER, SIZE = 2, 5, 5, 6, 7, 5, 6
UTF8 = 65001
ARGUMENTS = ("-T", "cs_6_0", "-E", "main")


class Source(ctypes.Structure):
    """DxcBuffer."""

    _fields_ = (("text", ctypes.c_char_p), ("size", ctypes.c_size_t), ("encoding", ctypes.c_uint))


def call(instance: ctypes.c_void_p, place: int, *arguments: Any, gives: Any = ctypes.c_int) -> Any:
    """A function of a COM object by its place in the table."""
    table = ctypes.cast(instance, ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p)))[0]
    return ctypes.CFUNCTYPE(gives)(table[place])(instance, *arguments)


@cache
def compiler() -> ctypes.c_void_p:
    made = ctypes.c_void_p()
    status = ctypes.CDLL(str(LIBRARY)).DxcCreateInstance(COMPILER, COMPILER_3, ctypes.byref(made))
    assert status == 0, status
    return made


def blob(result: ctypes.c_void_p, place: int) -> bytes:
    found = ctypes.c_void_p()
    call(result, place, ctypes.byref(found))
    size = call(found, SIZE, gives=ctypes.c_size_t)
    data = ctypes.string_at(call(found, POINTER, gives=ctypes.c_void_p), size) if size else b""
    call(found, RELEASE)
    return data


def dxil(text: str) -> tuple[bytes | None, str]:
    """The DXIL of a compute shader, nothing if it is wrong, and the compiler's messages."""
    data, result, status = text.encode(), ctypes.c_void_p(), ctypes.c_int()
    source, given = Source(data, len(data), UTF8), (ctypes.c_wchar_p * len(ARGUMENTS))(*ARGUMENTS)
    failed = call(compiler(), COMPILE, ctypes.byref(source), given, len(given), None, RESULT, ctypes.byref(result))
    assert failed == 0, failed
    call(result, STATUS, ctypes.byref(status))
    code, messages = None if status.value else blob(result, CODE), blob(result, MESSAGES).decode().rstrip("\0")
    call(result, RELEASE)
    return code, messages
