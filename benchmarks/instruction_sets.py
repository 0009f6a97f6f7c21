"""Leaves instruction sets of the processor unused in this process, for every engine in it."""

import ctypes
import platform

REQUEST_PERMISSION = 0x1023  # ARCH_REQ_XCOMP_PERM, by which a process asks Linux for the tile registers
ARCH_PRCTL = 158
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2
ALLOW, NOT_PERMITTED = 0x7FFF0000, 0x00050001


class Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("yes", ctypes.c_ubyte), ("no", ctypes.c_ubyte), ("value", ctypes.c_uint)]


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.POINTER(Instruction))]


def without_amx() -> None:
    """Linux refuses the tile registers from now on: call it before any engine is loaded."""
    if platform.machine() != "x86_64":
        return
    load, equal, answer = 0x20, 0x15, 0x06
    program = [
        Instruction(load, 0, 0, 0),  # the system call's number
        Instruction(equal, 0, 3, ARCH_PRCTL),
        Instruction(load, 0, 0, 16),  # the low half of its first argument
        Instruction(equal, 0, 1, REQUEST_PERMISSION),
        Instruction(answer, 0, 0, NOT_PERMITTED),
        Instruction(answer, 0, 0, ALLOW),
    ]
    rules = Program(len(program), (Instruction * len(program))(*program))
    system = ctypes.CDLL(None, use_errno=True)
    system.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
    if system.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) or system.prctl(SECCOMP, FILTER, ctypes.addressof(rules), 0, 0):
        raise OSError(ctypes.get_errno(), "Linux did not take the filter of system calls")
