"""Memory that is handed to another process: its size stays, and only who was given it has it."""

import fcntl
import os

import pytest

from fusiond.worker.pool.memory_file import memory_file


@pytest.mark.parametrize("size", [0, 3, 5000])
def test_memory_file_keeps_its_size(size):
    """Whoever has it mapped is not killed by SIGBUS, whatever is done to the descriptor."""
    fd = memory_file("test", b"text")
    try:
        with pytest.raises(PermissionError):
            os.ftruncate(fd, size)
        with pytest.raises(PermissionError):
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    finally:
        os.close(fd)
