"""Read a file that holds a secret; write a file so that no reader finds half of it. Standard library only."""

import errno
import os
from pathlib import Path


def write_atomically(path: Path, data: bytes, *, mode: int = 0o600, durable: bool = True) -> None:
    """A reader finds the old content or the new one; if it is `durable`, also after a power cut."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    try:
        # With its mode from its first byte on: a Config may hold secrets.
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            os.fchmod(file.fileno(), mode)  # whatever the umask takes away
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_directory(path.parent)


def read_secret(path: str | Path) -> str:
    """
    The text of the file, without a byte order mark and without blanks and line ends around it.

    Raises:
        OSError: it cannot be read, is empty or is not UTF-8, with the reason.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig").strip()
    except UnicodeDecodeError:
        raise OSError(errno.EILSEQ, "it is not UTF-8", str(path)) from None
    if not text:
        raise OSError(errno.EILSEQ, "it is empty", str(path))
    return text


def sync_directory(directory: Path) -> None:
    """Make renames in the directory outlive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
