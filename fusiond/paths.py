"""
Where things are: the file, the state and runtime directories of its daemon, and the files in them.

    state directory      owner.json  current.json  last-good.json  candidate-<n>.json  history/<n>.jsonl  lock
                         daemon-id  tail/<program>.log  redis/  web-token  web-ended  output/
    runtime directory    control.sock  redis/redis.sock  web.url
    /tmp/fusiond-<uid>   pointers/<name>.json, and the runtime directories of users without $XDG_RUNTIME_DIR

Each file has directories of its own. The nearest of these decides:

1. the file's key      `state_directory`, `runtime_directory`
2. systemd's variable  $STATE_DIRECTORY, $RUNTIME_DIRECTORY
3. the path            /etc/fusion.yaml: /var/lib/fusiond and /run/fusiond. An instance, /etc/fusion-NAME.yaml:
                       /var/lib/fusiond-NAME and /run/fusiond-NAME. Any other file: `<stem>-<8 hex>`, from its absolute
                       path with symlinks kept, below the user's own directories

`fusiond dev` uses the directory `dev` below each of the two, and never those of (3) for the files in /etc.

It only computes paths, and creates nothing. Standard library only.
"""

import hashlib
import os
import re
from pathlib import Path

from fusiond.errors import ConfigError

ETC = Path("/etc/fusion.yaml")
_SYSTEM_STATE, _SYSTEM_RUNTIME = Path("/var/lib"), Path("/run")
_INSTANCE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
#: characters of an instance's name: a socket's path stays short
_LONGEST_INSTANCE = 48
#: characters of a file's stem in the name of its directories
_LONGEST_STEM = 32
#: bytes: a socket's path stays below it
_SHORT = 100
_DEVELOPMENT = "dev"


def find_config(explicit: str | os.PathLike[str] | None = None) -> Path:
    """
    The file to read: `explicit`, else $FUSION_CONFIG, else ./fusion.yaml, else /etc/fusion.yaml.

    Returns:
        an absolute path, symlinks kept, so that a swapped link is noticed.

    Raises:
        ConfigError: no file was named, and neither place has one. A named file need not exist.
    """
    named = explicit or os.environ.get("FUSION_CONFIG")
    if named:
        return as_named(named)
    for path in (as_named("fusion.yaml"), ETC):
        if path.exists():
            return path
    raise ConfigError(
        f"no file: neither ./fusion.yaml nor {ETC} exists; name one with -c or write one with fusiond init"
    )


def instance_file(name: str) -> Path:
    """
    The file of an instance.

    Raises:
        ConfigError: the name cannot be that of an instance.
    """
    if len(name) > _LONGEST_INSTANCE or not _INSTANCE.fullmatch(name):
        raise ConfigError(
            f"{name!r} is not a name of an instance; use up to {_LONGEST_INSTANCE} letters, digits, `_`, `-` and `.`,"
            " with a letter, a digit or `_` first"
        )
    return ETC.with_name(f"{ETC.stem}-{name}{ETC.suffix}")


def system_name(file: Path) -> str | None:
    """`fusiond` for /etc/fusion.yaml, `fusiond-NAME` for an instance's file; None for any other file."""
    if file == ETC:
        return "fusiond"
    name = file.name.removeprefix(f"{ETC.stem}-").removesuffix(ETC.suffix)
    try:
        return f"fusiond-{name}" if file == instance_file(name) else None
    except ConfigError:
        return None


def as_named(path: str | os.PathLike[str]) -> Path:
    """
    The absolute path, symlinks kept, without `.` and `..`.

    A relative path starts at $PWD if that is the working directory, since $PWD keeps the symlinks through which a shell
    entered it, such as `/srv/shop/current`.
    """
    found = Path("/")
    for part in (_working_directory() / path).parts[1:]:
        # As in the kernel, `..` is the parent of the directory that a symlink leads to.
        found = found.resolve().parent if part == ".." else found / part
    return found


def _working_directory() -> Path:
    named = Path(os.environ.get("PWD", ""))
    try:
        if named.is_absolute() and named.samefile("."):
            return named
    except OSError:
        pass
    return Path.cwd()


def state_directory(file: Path, key: str | None = None, *, development: bool = False) -> Path:
    """
    The directory for data that outlives the daemon of this file.

    Args:
        file: its absolute path, as `find_config` returns it.
        key: the file's `state_directory`.
        development: whether it is `fusiond dev`.

    Raises:
        ConfigError: this user has no home directory, and no key or variable names a directory.
    """
    given = _given(key, "STATE_DIRECTORY") or _of_system(_SYSTEM_STATE, file, development=development)
    base = given or _user_state() / own_name(file)
    return base / _DEVELOPMENT if development else base


def runtime_directory(file: Path, key: str | None = None, *, development: bool = False) -> Path:
    """Where the daemon of this file puts its sockets; the arguments are those of `state_directory`."""
    given = _given(key, "RUNTIME_DIRECTORY") or _of_system(_SYSTEM_RUNTIME, file, development=development)
    base = given or user_runtime() / own_name(file)
    return base / _DEVELOPMENT if development else base


def is_given_state(file: Path, key: str | None = None) -> bool:
    """Whether the state directory was chosen: by the file's key, systemd's variable, or a path in /etc."""
    return system_name(file) is not None or _given(key, "STATE_DIRECTORY") is not None


def own_name(file: Path) -> str:
    """`<stem>-<8 hex>`: the name of the directories that belong to this file alone."""
    stem = re.sub(r"[^A-Za-z0-9._-]", "_", file.stem)[:_LONGEST_STEM].lstrip(".") or "file"
    return f"{stem}-{hashlib.sha256(os.fsencode(file)).hexdigest()[:8]}"


def _of_system(base: Path, file: Path, *, development: bool) -> Path | None:
    name = None if development else system_name(file)
    return base / name if name else None


def _given(key: str | None, variable: str) -> Path | None:
    return Path(key) if key else of_systemd(variable)


def of_systemd(variable: str) -> Path | None:
    """The first of the directories that systemd names in this variable."""
    first = os.environ.get(variable, "").split(":")[0]
    return Path(first) if first else None


def _user_state() -> Path:
    base = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not base.is_absolute():
        try:
            base = Path.home() / ".local" / "state"
        except RuntimeError:
            raise ConfigError(
                "this user has no home directory; set state_directory, $STATE_DIRECTORY or $XDG_STATE_HOME"
            ) from None
    return base / "fusiond"


def user_runtime() -> Path:
    """The directory that holds the runtime directories of this user's files."""
    base = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    longest = base / "fusiond" / f"{'x' * _LONGEST_STEM}-12345678" / _DEVELOPMENT
    # sudo and su may pass on another user's directory, which is removed when that user logs out.
    if base.is_absolute() and _is_own(base) and len(os.fsencode(redis_socket(longest))) < _SHORT:
        return base / "fusiond"
    return temporary(os.geteuid())


def temporary(uid: int) -> Path:
    """This user's directory below /tmp; callers check its owner and mode."""
    return Path(f"/tmp/fusiond-{uid}")  # noqa: S108 - see above


def pointers(uid: int) -> Path:
    """The directory of this user's pointers, as in `fusiond/locate/pointers.py`."""
    return temporary(uid) / "pointers"


def _is_own(directory: Path) -> bool:
    try:
        return directory.stat().st_uid == os.geteuid()
    except OSError:
        return False


#: longest path in bytes: the kernel's limit of 107, less supervisor's temporary suffix `.<pid>`
LONGEST_CONTROL = 107 - 8


def control_socket(runtime: Path) -> Path:
    """Where the daemon listens: XML-RPC, for `fusiond reload` and `supervisorctl`."""
    return runtime / "control.sock"


def redis_socket(runtime: Path) -> Path:
    """Where the embedded server listens; in a directory of its own, which only `broker.socket_group` may enter."""
    return runtime / "redis" / "redis.sock"


def redis_state(state: Path) -> Path:
    """Where the embedded server keeps its append-only file."""
    return state / "redis"


def current_snapshot(state: Path) -> Path:
    """The accepted configuration, which every program of the daemon reads."""
    return state / "current.json"


def last_good_snapshot(state: Path) -> Path:
    """The accepted configuration before the current one: `fusiond run --last-good`."""
    return state / "last-good.json"


def candidate_snapshot(state: Path, generation: int) -> Path:
    """A configuration that a reload is trying."""
    return state / f"candidate-{generation}.json"


def history(state: Path) -> Path:
    """The directory of the accepted generations."""
    return state / "history"


def owner_record(state: Path) -> Path:
    """The record of the file whose daemon last used the state directory."""
    return state / "owner.json"


def lock_file(state: Path) -> Path:
    """Locked by the daemon of this state directory."""
    return state / "lock"


def web_token(state: Path) -> Path:
    """The token that logs in to the dashboard, if the file names no `token_file`."""
    return state / "web-token"


def ended_sessions(state: Path) -> Path:
    """The sessions of the dashboard whose users have logged out."""
    return state / "web-ended"


def job_output(state: Path) -> Path:
    """Where what jobs have printed is kept."""
    return state / "output"


def slot_number(state: Path, variable: str, number: int) -> Path:
    """Locked while a child has this number as the value of this variable."""
    return state / "slot-numbers" / f"{variable}.{number}"


def web_url(runtime: Path) -> Path:
    """Where the dashboard listens now, for commands; it is missing while it does not."""
    return runtime / "web.url"


def tail_file(state: Path, program: str) -> Path:
    """The last lines of a program's log, for `supervisorctl tail`."""
    return state / "tail" / f"{program}.log"
