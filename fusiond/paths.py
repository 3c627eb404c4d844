"""
Where things are: the file, the state and runtime directories, and what lies in them.

    state directory      current.json  last-good.json  candidate-<n>.json  history/<n>.jsonl  lock
                         tail/<program>.log  redis/
    runtime directory    control.sock  redis/redis.sock

Only names; nothing is created here. Standard library only.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from fusiond.errors import ConfigError

ETC = Path("/etc/fusion.yaml")
_ROOT_STATE, _ROOT_RUNTIME = Path("/var/lib/fusiond"), Path("/run/fusiond")


class Directories(Protocol):
    """The two keys of a Config that are read here; the Config itself lives a floor above."""

    @property
    def state_directory(self) -> str | None: ...  # noqa: D102
    @property
    def runtime_directory(self) -> str | None: ...  # noqa: D102


def find_config(explicit: str | os.PathLike[str] | None = None) -> Path:
    """
    The file to read: `explicit`, else $FUSION_CONFIG, else ./fusion.yaml, else /etc/fusion.yaml.

    Returns:
        an absolute path, symlinks kept, so that a swapped link is noticed.

    Raises:
        ConfigError: none was named and neither place has one. What was named is not looked at here.
    """
    named = explicit or os.environ.get("FUSION_CONFIG")
    if named:
        return Path(named).absolute()
    for path in (Path("fusion.yaml").absolute(), ETC):
        if path.exists():
            return path
    raise ConfigError(
        f"no file: neither ./fusion.yaml nor {ETC} exists; name one with -c or write one with fusiond init"
    )


def state_directory(config: Directories | None = None) -> Path:
    """Where the daemon keeps what must outlive it: the file's key, else systemd's, else root's or the user's own."""
    if config and config.state_directory:
        return Path(config.state_directory)
    return _of_systemd("STATE_DIRECTORY") or (_ROOT_STATE if os.geteuid() == 0 else _user_state())


def runtime_directory(config: Directories | None = None) -> Path:
    """Where the daemon puts its sockets: the file's key, else systemd's, else root's or the user's own."""
    if config and config.runtime_directory:
        return Path(config.runtime_directory)
    return _of_systemd("RUNTIME_DIRECTORY") or (_ROOT_RUNTIME if os.geteuid() == 0 else _user_runtime())


def find_runtime(config: Directories | None = None) -> Path:
    """
    The runtime directory of a daemon that may run under another user.

    Returns:
        `runtime_directory(config)`, or root's own where only that one exists.
    """
    own = runtime_directory(config)
    named = (config and config.runtime_directory) or _of_systemd("RUNTIME_DIRECTORY")
    return _ROOT_RUNTIME if not named and not own.exists() and _ROOT_RUNTIME.exists() else own


#: bytes of its path: what the kernel takes, 107, less supervisor's temporary suffix `.<pid>`
LONGEST_CONTROL = 107 - 8


def control_socket(runtime: Path) -> Path:
    """Where the daemon listens: XML-RPC, for `fusiond reload` and `supervisorctl`."""
    return runtime / "control.sock"


def redis_socket(runtime: Path) -> Path:
    """Where the embedded server listens; in a directory of its own, which `broker.socket_group` opens."""
    return runtime / "redis" / "redis.sock"


def development(state: Path) -> Path:
    """The state directory of `fusiond dev`: what it accepts, and its Redis, are no part of what `run` goes on from."""
    return state / "dev"


def redis_state(state: Path) -> Path:
    """Where the embedded server keeps its append-only file."""
    return state / "redis"


def current_snapshot(state: Path) -> Path:
    """The accepted configuration, which every program reads."""
    return state / "current.json"


def last_good_snapshot(state: Path) -> Path:
    """The accepted configuration before the current one: `fusiond run --last-good`."""
    return state / "last-good.json"


def candidate_snapshot(state: Path, generation: int) -> Path:
    """A configuration that is being tried."""
    return state / f"candidate-{generation}.json"


def history(state: Path) -> Path:
    """The directory of the generations that were accepted."""
    return state / "history"


def lock_file(state: Path) -> Path:
    """Held by the one daemon of this state directory."""
    return state / "lock"


def tail_file(state: Path, program: str) -> Path:
    """The last lines of a program's log, for `supervisorctl tail`."""
    return state / "tail" / f"{program}.log"


def _of_systemd(variable: str) -> Path | None:
    first = os.environ.get(variable, "").split(":")[0]
    return Path(first) if first else None


def _user_state() -> Path:
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "fusiond"


def _user_runtime() -> Path:
    base = os.environ.get("XDG_RUNTIME_DIR")
    return Path(base) / "fusiond" if base else Path(f"/tmp/fusiond-{os.geteuid()}")  # noqa: S108 - owner and mode are checked
