"""
The snapshot: the one accepted configuration, as a file that every program reads.

1. write    a Config as a candidate, 0600, never seen half-written
2. promote  the candidate over the current one, which is kept as the last good one if it says something else
3. read     it in each program: no YAML, no checks, no third-party package

Standard library only.
"""

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from fusiond.config.model import Config, rebuild
from fusiond.errors import ConfigError
from fusiond.files import sync_directory, write_atomically


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A numbered, accepted Config."""

    #: counts the accepted configurations of this state directory, from 1
    generation: int
    #: sha256 hex of the Config's text: equal means that nothing changed
    hash: str
    config: Config
    #: the snapshot's own file
    path: Path
    #: absolute path of the YAML file that it came from
    source: str = ""
    #: after a rollback, the generation whose content this is; 0: it was read from the file
    restores: int = 0
    #: after a rollback, the hash of what the file said then: while it says the same, it does not undo the rollback
    instead_of: str = ""


def content_hash(config: Config) -> str:
    """sha256 hex of the Config's text, the same for the same Config in any process."""
    return hashlib.sha256(config.to_json().encode()).hexdigest()


def read_snapshot(path: str | os.PathLike[str]) -> Snapshot:
    """The snapshot in `path`. Raises ConfigError if it is missing, unreadable, damaged or of another version."""
    path = Path(path)
    try:
        content = json.loads(path.read_bytes())
        return Snapshot(**content | {"config": rebuild(Config, content["config"]), "path": path})
    except OSError as error:
        raise ConfigError(f"{path}: the snapshot cannot be read ({error.strerror}); restart the daemon") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: the snapshot is damaged ({error}); restart the daemon") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path}: not a snapshot of this version ({error!r}); restart the daemon") from error


def write(
    path: Path, config: Config, *, generation: int, source: str = "", restores: int = 0, instead_of: str = ""
) -> Snapshot:
    """Write `config` to `path`, atomically and durably, readable by the daemon's user alone."""
    text = config.to_json()
    digest = hashlib.sha256(text.encode()).hexdigest()
    head = {"generation": generation, "hash": digest, "source": source, "restores": restores, "instead_of": instead_of}
    write_atomically(path, f'{json.dumps(head)[:-1]}, "config": {text}}}\n'.encode())
    return Snapshot(generation, digest, config, path, source, restores, instead_of)


def promote(candidate: Path, current: Path, last_good: Path) -> None:
    """
    Make the candidate the current snapshot; the current one becomes the last good one.

    It does not if it says the same, as when code was reloaded: one of an older content is kept. Each of the two steps
    is a rename, so that a crash between them leaves both files whole.
    """
    with contextlib.suppress(FileNotFoundError):
        before = current.read_bytes()
        if _content(before) != _content(candidate.read_bytes()):
            write_atomically(last_good, before)
    candidate.replace(current)
    sync_directory(current.parent)


def _content(snapshot: bytes) -> bytes:
    """What it says, without its number and the rest of its head."""
    return snapshot.partition(b', "config": ')[2]


def next_generation(current: Path) -> int:
    """The number after that of the current snapshot; 1 if there is none, or none that can be read."""
    try:
        return read_snapshot(current).generation + 1
    except ConfigError:
        return 1
