"""Memory that is handed to another process by its descriptor."""

from __future__ import annotations

import fcntl
import os


def memory_file(name: str, *content: bytes) -> int:
    """
    A descriptor of memory that holds the content, at its beginning, and whose size nobody can change.

    A process that reads a mapped file which was truncated is killed by SIGBUS. The seals prevent that.
    """
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(fd, "wb", closefd=False) as file:
        file.writelines(content)
    os.lseek(fd, 0, os.SEEK_SET)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd
