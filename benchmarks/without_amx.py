"""Runs a command that finds a processor without AMX: `python benchmarks/without_amx.py python benchmarks/embed_cpu.py`.

Linux gives a process the tile registers when it asks (`arch_prctl(ARCH_REQ_XCOMP_PERM)`); a filter of system calls
refuses that here, for the command and all it starts, so that every engine falls back to AVX-512. Linux on x86-64 alone.
"""

import ctypes
import errno
import os
import struct
import sys

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, FILTER = 22, 38, 2
ARCH_PRCTL, ARCH_REQ_XCOMP_PERM = 158, 0x1023
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
# Offsets in the system call's description: its number, and the lower half of its first argument.
NUMBER, ARGUMENT = 0, 16
PROGRAM = [  # code, jump if true, jump if false, constant
    (LOAD, 0, 0, NUMBER),
    (EQUAL, 0, 3, ARCH_PRCTL),
    (LOAD, 0, 0, ARGUMENT),
    (EQUAL, 0, 1, ARCH_REQ_XCOMP_PERM),
    (RETURN, 0, 0, ERRNO | errno.EPERM),
    (RETURN, 0, 0, ALLOW),
]


class Filter(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def refuse_amx() -> None:
    """From here on, in this process and its children."""
    code = b"".join(struct.pack("HBBI", *row) for row in PROGRAM)
    program = Filter(len(PROGRAM), code)
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, FILTER, ctypes.byref(program), 0, 0)):
        if libc.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "the filter of system calls is refused")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    refuse_amx()
    os.execvp(sys.argv[1], sys.argv[1:])
