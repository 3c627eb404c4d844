"""
A crontab, of a user or of the system.

1. lines      assignments hold for the lines below them; CRON_TZ, MAILTO, SHELL and RANDOM_DELAY mean something to cron
2. commands   each one is a cron entry over the task that runs programs: `SHELL -c COMMAND`, started in the home
              directory as cron does; what follows an unescaped % is its input
3. groups     the commands of one user with the same variables are jobs of one worker group

Source of the format: crontab(5) of Vixie cron, cronie and OpenBSD.
"""

import pwd
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Final

from fusiond.config.secrets import looks_secret, names_secret
from fusiond.importing.draft import Draft
from fusiond.importing.input_files import ImportOptions, SourceText

_ASSIGNMENT: Final = re.compile(r"""\s*(["']?)([A-Za-z_][A-Za-z0-9_]*)\1\s*=\s*(.*)""")
_JOB: Final = re.compile(r"\s*(@every\s+\S+|@\S+|(?:\S+\s+){4}\S+)\s+(\S.*)")
_USER: Final = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
#: a heading above lines that name a user
_HEADING: Final = re.compile(r"^\s*#.*\b(?:user|user-name|who)\b\s+(?:command|cmd)\b", re.MULTILINE | re.IGNORECASE)
#: accounts that most machines have, and this one may not have
_ACCOUNTS: Final = frozenset({"root", "nobody", "daemon", "www-data", "postgres", "nginx", "apache", "git", "mail"})
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash"})
_PERCENT: Final = re.compile(r"(?<!\\)%")
_SKIPPED: Final = frozenset({"MAILTO", "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING", "LOGNAME", "USER"})
#: programs that start another one
_IDLE: Final = _SHELLS | {
    "cd",
    "env",
    "nice",
    "ionice",
    "sudo",
    "exec",
    "if",
    "php",
    "python",
    "python3",
    "perl",
    "ruby",
}
#: cron entries are called after the program; characters of such a name
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{2,}")


@dataclass(slots=True)
class _Settings:
    """What the assignments so far say."""

    shell: str = "/bin/sh"
    timezone: str | None = None
    #: cronie's RANDOM_DELAY, in minutes
    jitter: int = 0
    environment: dict[str, str] = field(default_factory=dict)


def read(inputs: Sequence[SourceText], draft: Draft, options: ImportOptions) -> None:
    """Put each line of each file into the draft."""
    draft.remark("cron reads a schedule in the time zone of its machine; an entry without `timezone` is read in UTC.")
    draft.remark("cron mails what a command prints; here it is in the log, and `fusiond job show` has the end of it.")
    draft.remark(
        "cron ends no command; here the task's `timeout` does, and a shutdown after the group's drain_timeout."
    )
    for each in inputs:
        _File(each, draft, options).read()


class _File:
    """One crontab."""

    def __init__(self, source: SourceText, draft: Draft, options: ImportOptions) -> None:
        self._source, self._draft = source, draft
        self._settings = _Settings(timezone=options.timezone)
        guessed = options.has_users is None and _has_users(source)
        self._has_users = bool(options.has_users) or guessed
        if guessed:
            draft.remark(f"{source.name}: its lines are read as those of a system crontab, which name a user.")

    def read(self) -> None:
        """Take each line."""
        for number, line in enumerate(self._source.text.split("\n"), 1):
            if line.strip() and not line.lstrip().startswith("#"):
                self._line(line, f"{self._source.name}, line {number}")

    def _line(self, line: str, where: str) -> None:
        if found := _ASSIGNMENT.fullmatch(line):
            self._assign(found[2], _unquoted(found[3]), where)
        elif found := _JOB.fullmatch(line):
            self._job(found[1], found[2], where)
        else:
            self._draft.leave_out(f"{where}, {_short(line)}", "neither a schedule with a command nor an assignment")

    def _assign(self, name: str, value: str, where: str) -> None:
        if name == "SHELL":
            self._settings.shell = value
        elif name == "CRON_TZ":
            self._settings.timezone = value
        elif name == "RANDOM_DELAY" and value.isdigit():
            self._settings.jitter = int(value)
        elif name == "MAILTO" and value:
            reason = "no mail is sent; `on_failure: {webhook: URL}` of the task tells of failures"
            self._draft.leave_out(f"{where}, MAILTO={value}", reason)
        elif name == "START_HOURS_RANGE":
            self._draft.leave_out(f"{where}, {name}={value}", "name the hours in each schedule")
        elif names_secret(name) or looks_secret(value):
            reason = "it seems to be a secret: put it into a file that `environment_file` of the group names"
            self._draft.leave_out(f"{where}, {name}", reason)
        elif name not in _SKIPPED:
            self._settings.environment = {**self._settings.environment, name: value}

    def _job(self, schedule: str, rest: str, where: str) -> None:
        user, command = "", rest
        if self._has_users:
            user, command = [*rest.split(None, 1), ""][:2]
        if not command:
            self._draft.leave_out(f"{where}, {_short(rest)}", "no command follows the user")
        elif schedule == "@reboot":
            reason = "there is no schedule for the start of the machine; a systemd unit of its own does that"
            self._draft.leave_out(f"{where}, {_short(rest)}", reason)
        else:
            self._entry(schedule, user, command, where)

    def _entry(self, schedule: str, user: str, command: str, where: str) -> None:
        task = self._task(user)
        words, given = _split(command)
        comments = [where, *_doubts(schedule)]
        argv = [self._settings.shell, "-c", words]
        if PurePath(self._settings.shell).name in _SHELLS and not words.startswith("cd /"):
            argv[2] = f"cd; {words}"
        values: dict[str, Any] = {"task": task, **_timing(schedule)}
        if self._settings.timezone and "schedule" in values:
            values["timezone"] = self._settings.timezone
        if self._settings.jitter:
            values["jitter"] = f"{self._settings.jitter}m"
        values |= {"overlap": "allow", "args": [argv]}
        if given is not None:
            values["kwargs"] = {"input": given}
            comments.append("what follows a % without a backslash is the input of the command, as in cron")
        self._draft.put("cron", _name_of(words), values, *comments)

    def _task(self, user: str) -> str:
        """The task that runs commands of this user with the present variables, in a group of its own."""
        environment = self._settings.environment
        groups = self._draft.sections["workers"]
        values: dict[str, Any] = {"processes": 4, "drain_timeout": "5m"}
        values |= {"user": user} if user else {}
        values |= {"environment": environment} if environment else {}
        for name, group in groups.items():
            if {key: value for key, value in group.values.items() if key != "queues"} == values:
                return name
        name = self._draft.queue(_free(f"cron_{user}" if user else "cron", groups))
        self._draft.group(name, {"queues": [name], **values})
        comment = "cron starts a command once, whatever becomes of it: `retry: none`"
        return self._draft.command(name, name, comment, retry="none", timeout="1d")


def _has_users(source: SourceText) -> bool:
    """Whether the lines name a user behind the schedule."""
    if source.name == "/etc/crontab" or PurePath(source.name).parent == PurePath("/etc/cron.d"):
        return True
    jobs = [found[2] for line in source.text.split("\n") if (found := _JOB.fullmatch(line))
            and not line.lstrip().startswith("#") and not _ASSIGNMENT.fullmatch(line)]  # fmt: skip
    firsts = [rest.split(None, 1) for rest in jobs]
    if not firsts or not all(len(words) == 2 and _USER.fullmatch(words[0]) for words in firsts):
        return False
    return bool(_HEADING.search(source.text)) or all(_is_account(words[0]) for words in firsts)


def _is_account(name: str) -> bool:
    try:
        return name in _ACCOUNTS or bool(pwd.getpwnam(name))
    except KeyError:
        return False


def _timing(schedule: str) -> dict[str, Any]:
    """The keys of an entry that say when it ticks; the loader refuses what it does not know."""
    every = {"@every_minute": "1m", "@every_second": "1s"}.get(schedule)
    if every or schedule.startswith("@every"):
        return {"every": every or schedule.split()[1]}
    return {"schedule": schedule if schedule.startswith("@") else " ".join(schedule.split())}


def _doubts(schedule: str) -> list[str]:
    """What a schedule means to cron alone."""
    fields = schedule.split()
    if len(fields) == 5 and fields[2] != "*" != fields[4] and (fields[2] + " " + fields[4]).find("*") >= 0:
        return ["cron runs this when both day fields match; here one of them is enough"]
    return []


def _split(command: str) -> tuple[str, str | None]:
    """The command, and what it reads: behind the first % that no backslash precedes; further ones end lines."""
    parts = [part.replace("\\%", "%") for part in _PERCENT.split(command)]
    return parts[0].strip(), "\n".join(parts[1:]).removesuffix("\n") + "\n" if len(parts) > 1 else None


def _name_of(command: str) -> str:
    """After the program that a command runs: the last part of its first words that say something."""
    # what `cd` and the like are given is not a program
    programs = re.sub(r"\b(?:cd|source|sleep|flock|nice|test|\.) [^;&|]*(?:&&|;|\|\|)", "", command)
    words = [PurePath(word).name for word in re.split(r"[\s;&|<>()\"'`]+", programs) if not re.match(r"-|\w+=", word)]
    said = [word for word in words if _NAME.fullmatch(word) and word not in _IDLE and not word.isdigit()]
    return said[0] if said else "command"


def _free(name: str, taken: Mapping[str, object]) -> str:
    number = next(n for n in range(1, len(taken) + 2) if (name if n == 1 else f"{name}_{n}") not in taken)
    return name if number == 1 else f"{name}_{number}"


def _unquoted(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


def _short(line: str) -> str:
    text = " ".join(line.split())
    return repr(text if len(text) <= 80 else text[:79] + "…")
