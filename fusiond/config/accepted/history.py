"""
The generations that were accepted: what ran, since when, who asked, and what changed. LIMIT of them are kept.

1. record   one file each, `<generation>.jsonl`, readable by the daemon's user alone: its entry, then its Config. The
            oldest goes first, but before it those that only loaded code again: a rollback needs another content
2. list     the entries, by the first line of each file
3. restore  the Config of one of them

A file that cannot be read is left out of the list: the history is a convenience, and nothing depends on it.
Standard library only.
"""

import contextlib
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from fusiond.config.accepted.plan import Plan
from fusiond.config.accepted.snapshot import Snapshot
from fusiond.config.model import Config, rebuild
from fusiond.errors import ConfigError
from fusiond.files import write_atomically

#: generations that are kept; each takes as much room as its snapshot
LIMIT: Final = 50
_SUFFIX: Final = ".jsonl"
#: what a file raises that is gone, damaged, of another user or of another version
_UNUSABLE: Final = (OSError, ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True)
class Entry:
    """One accepted generation."""

    generation: int
    #: sha256 hex of its content: equal means that the same ran
    hash: str
    #: absolute path of the file that the daemon read then
    source: str
    #: epoch seconds
    accepted_at: float
    #: such as `fusiond run`, `the file's change`, `fusiond rollback by alice`
    asked_by: tuple[str, ...]
    #: from the generation before, in one sentence; names keys, never values
    changes: str
    #: the same in full; None: there was none to compare with
    plan: Plan | None = None
    #: after a rollback, the generation whose content this is; 0: it was read from the file
    restores: int = 0

    @property
    def origin(self) -> int:
        """The generation that had this content first, as far as rollbacks say."""
        return self.restores or self.generation


def record(
    directory: Path, accepted: Snapshot, plan: Plan | None, asked_by: Sequence[str], *, accepted_at: float
) -> None:
    """Keep an accepted generation, and remove those beyond LIMIT. Raises OSError."""
    directory.mkdir(mode=0o700, exist_ok=True)
    entry = Entry(
        generation=accepted.generation,
        hash=accepted.hash,
        source=accepted.source,
        accepted_at=accepted_at,
        asked_by=tuple(asked_by),
        changes=str(plan) if plan else "oldest generation that is kept",
        plan=plan,
        restores=accepted.restores,
    )
    text = f"{json.dumps(asdict(entry))}\n{accepted.config.to_json()}\n"
    # Not durable: a reload does not wait for the disk twice, and a file that a power cut emptied is left out.
    write_atomically(_file(directory, accepted.generation), text.encode(), durable=False)
    while len(numbers := _generations(directory)) > LIMIT:
        _file(directory, _least_needed(entries(directory), numbers)).unlink(missing_ok=True)


def _least_needed(kept: Sequence[Entry], numbers: Sequence[int]) -> int:
    """One that cannot be read; else the oldest with the content of the one before it; else the oldest."""
    unreadable = {*numbers} - {entry.generation for entry in kept}
    # Never the newest, which runs.
    repeated = (after.generation for before, after in pairwise(kept[:-1]) if after.hash == before.hash)
    return min(unreadable, default=next(repeated, numbers[0]))


def entries(directory: Path, of: str = "") -> list[Entry]:
    """
    What is kept, oldest first; nothing if there is no history, or none that this user may read.

    Args:
        directory: the history.
        of: only the generations of this file, as the daemon names it; "": of every file. A directory may have belonged
            to another file before; it makes no sense to go back to that one's generations.
    """
    found = []
    for generation in _generations(directory):
        with (
            contextlib.suppress(*_UNUSABLE),
            _file(directory, generation).open(encoding="utf-8") as file,
        ):
            entry: Entry = rebuild(Entry, json.loads(file.readline()))
            if not of or entry.source == of:
                found.append(entry)
    return found


def newest(directory: Path) -> int:
    """The highest number that was given, 0 if there is none."""
    return max(_generations(directory), default=0)


def config_of(directory: Path, generation: int) -> Config:
    """The Config of a generation. Raises ConfigError if it is not kept, is damaged, or is of another version."""
    try:
        head, text = _file(directory, generation).read_bytes().splitlines()
        if hashlib.sha256(text).hexdigest() != json.loads(head)["hash"]:
            raise ValueError("it is not what was accepted")
        return Config.from_json(text)
    except _UNUSABLE as error:
        raise ConfigError(
            f"generation {generation} cannot be restored ({error!r}); choose another one of fusiond history"
        ) from error


def target(kept: Sequence[Entry], running: Snapshot, generation: int) -> Entry:
    """
    The entry that a rollback goes to.

    Args:
        kept: the entries, oldest first.
        running: what runs now.
        generation: its number; 0: the one before what runs. A second rollback goes back one further, and does not
            return to what the first one left.

    Raises:
        ConfigError: there is none, or only code has changed since: the daemon keeps none.
    """
    earlier = [entry for entry in kept if entry.generation < running.generation]
    origin = running.restores or running.generation
    other = [entry for entry in earlier if entry.generation < origin and entry.hash != running.hash]
    if generation:
        found = [entry for entry in kept if entry.generation == generation]
        numbers = ", ".join(str(entry.generation) for entry in kept) or "none"
        reason = f"generation {generation} is not kept; there are: {numbers}"
        since = earlier if found and found[0].hash == running.hash else []
        hashes = [entry.hash for entry in since if entry.generation >= generation]
    else:
        found, reason = other, f"generation {origin} runs, and no earlier generation is kept"
        hashes = [entry.hash for entry in earlier[-1:]]
    if any(before == after for before, after in pairwise([*hashes, running.hash])):
        raise ConfigError(_only_code(running, other))
    if not found:
        raise ConfigError(reason)
    return found[-1]


def loaded_code(kept: Sequence[Entry], since: int) -> list[int]:
    """The generations after this one that loaded code or environment files again, whatever else they changed."""
    causes = {"code", "release", "environment_file"}
    plans = {entry.generation: entry.plan for entry in kept if entry.plan and entry.generation > since}
    return [number for number, plan in plans.items() if any(causes & {*group.because} for group in plan.groups)]


def _only_code(running: Snapshot, other: Sequence[Entry]) -> str:
    links = sorted({path for group in running.config.workers.values() for path in group.reload_on})
    return (
        f"generation {running.generation} only loaded code or environment files again, and the daemon keeps no earlier "
        "ones: put the earlier ones back, then run fusiond reload --code"
        + (f"; or switch {', '.join(links)} to the release before" if links else "")
        + (f". To undo the change of the file before that: fusiond rollback {other[-1].generation}" if other else "")
    )


def _file(directory: Path, generation: int) -> Path:
    return directory / f"{generation}{_SUFFIX}"


def _generations(directory: Path) -> list[int]:
    return sorted(int(file.stem) for file in directory.glob(f"*{_SUFFIX}") if file.stem.isdecimal())
