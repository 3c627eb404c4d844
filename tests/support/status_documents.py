"""Status documents: whether one is as its types say, and whole ones for tests without a daemon."""

from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from fusiond.status_document import StatusDocument


def misfits(value, hint=StatusDocument, at="status"):
    """Where a value that was read from JSON is not as the type says: keys, and the type of each value."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return []
    if is_typeddict(hint):
        return _of_fields(value, hint, at)
    if origin in (Union, UnionType):
        tried = [misfits(value, part, at) for part in parts]
        return [] if [] in tried else min(tried, key=len)
    if origin is Literal:
        return [] if value in parts else [f"{at} is {value!r}"]
    if origin is list and isinstance(value, list):
        return [found for number, each in enumerate(value) for found in misfits(each, parts[0], f"{at}[{number}]")]
    if origin is dict and isinstance(value, dict):
        keys = [found for key in value for found in misfits(key, parts[0], f"a key of {at}")]
        return keys + [found for key, each in value.items() for found in misfits(each, parts[1], f"{at}.{key}")]
    return [] if type(value) is hint else [f"{at} is {value!r}"]


def _of_fields(value, hint, at):
    hints = get_type_hints(hint)
    if not isinstance(value, dict):
        return [f"{at} is {value!r}"]
    if not value and not hint.__required_keys__:
        return []
    found = [f"{at} has no {name}" for name in hints if name not in value]
    found += [f"{at} has {name}, which its type has not" for name in value if name not in hints]
    return found + [each for name in hints.keys() & value for each in misfits(value[name], hints[name], f"{at}.{name}")]


def program_status(name="worker:main@1", **said):
    """A program that serves, or what is said instead."""
    return {
        "ready": True, "serves": True, "draining": False, "trial": False, "stopped_by_operator": False,
        "last_exit": None, "deaths": 0, "busy": None, "retry_in": None, "unloaded": "", "warning": "", "reason": "",
        "scaled": {}, "waits_for_redis": False, "name": name, "part": name.partition("@")[0], "state": "RUNNING",
        "wanted": True, "pid": 1, "uptime": 5.0, "generation": 3, "last_words": [], "release": {}, **said,
    }  # fmt: skip


def refused_reload(**said):
    """A reload that was refused, or what is said instead."""
    return {
        "result": "refused", "generation": 3, "hash": "abc", "asked_by": ["SIGHUP"], "seconds": 0.5, "ended_at": 7.0,
        "reason": "it is bad", "problems": [], "plan": None, "restores": 0, "warnings": [], "summary": "refused",
        **said,
    }  # fmt: skip


def status_document(*programs, **said):
    """A daemon that is ready and has these programs, or what is said instead."""
    document = {
        "pid": 1, "version": "0.1.0", "source": "/etc/fusion.yaml", "development": False,
        "state_directory": "/var/lib/fusiond", "runtime_directory": "/run/fusiond", "snapshot": "/var/lib/fusiond/3",
        "uptime": 5.0, "ready": True, "unready": {}, "of_other_hosts": [], "settled": True, "ending": False,
        "drained": None, "drained_queues": [], "generation": 3, "hash": "abc", "restores": 0, "server": None,
        "file_differs": False, "reload": None, "reloads": {}, "programs": [*programs], **said,
    }  # fmt: skip
    assert misfits(document) == []
    return document
