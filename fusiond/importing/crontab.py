"""
A crontab, of a user or of the system.

1. lines      assignments hold for the lines below them; CRON_TZ, MAILTO, SHELL and RANDOM_DELAY mean something to cron
2. commands   each one is a task, `SHELL -c COMMAND`, started in the home directory as under cron, with a cron entry;
              what follows an unescaped % is its input; the comment above the line is its description
3. groups     the commands of one user with the same variables are jobs of one worker group

Source of the format: crontab(5) of Vixie cron, cronie and OpenBSD.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Final

from fusiond.config.problems import mask
from fusiond.config.secrets import looks_secret, names_secret
from fusiond.importing.draft import Draft
from fusiond.importing.input_files import ImportOptions, SourceText

_ASSIGNMENT: Final = re.compile(r"""\s*(["']?)([A-Za-z_][A-Za-z0-9_]*)\1\s*=\s*(.*)""")
_JOB: Final = re.compile(r"\s*(@every\s+\S+|@\S+|(?:\S+\s+){4}\S+)\s+(\S.*)")
#: what stands behind five fields if the line has six, as other programs write schedules
_SIXTH: Final = re.compile(r"(?:[0-9*?,/~-]|MON|TUE|WED|THU|FRI|SAT|SUN)+")
_USER: Final = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
#: a heading above lines that name a user; and any other
_HEADING: Final = re.compile(r"^\s*#.*\b(?:user(?:-?name)?|who)\s+(?:command|cmd)\b", re.MULTILINE | re.IGNORECASE)
_COLUMNS: Final = re.compile(r"\b(?:dom|dow)\b|^(?:\S+\s+){5,6}(?:command|cmd)\b", re.IGNORECASE)
#: accounts for which packages have lines, and after which no program is called
_ACCOUNTS: Final = frozenset({"root", "www-data", "nobody", "apache", "nginx", "postgres", "mysql", "munin"})
_SUDO: Final = re.compile(r"(?:^|[\s;&|(])(?:sudo|su|doas)\s")
#: runs what follows with $0 as its input
_WITH_INPUT: Final = ("/bin/sh", "-c", 'printf %s "$0" | "$@"')
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
#: how a line of a crontab begins
_BEGINS: Final = frozenset("0123456789*@")
#: characters of a description
_LONGEST: Final = 200


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
    draft.remark("cron reads a schedule in the time zone of its machine; here it is UTC, or what --timezone names.")
    draft.remark("cron mails what a command prints; here it is in the log, and a failed job keeps the end of it.")
    draft.remark("cron ignores exit statuses; here each but 0 fails the job, also 1 of `[ … ] && …` and of `flock -n`.")
    draft.remark("cron ends no command; here `timeout` does, and a shutdown after the group's drain_timeout.")
    draft.of_tasks.values |= {"retry": "none", "timeout": "1d"}
    draft.of_tasks.say("cron starts a command once, whatever becomes of it, and ends none")
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
        above: list[str] = []
        for number, line in enumerate(self._source.text.split("\n"), 1):
            if line.lstrip().startswith("#"):
                above.append(line.strip(" \t#"))
                if _COLUMNS.search(above[-1]):
                    above.clear()
                continue
            if line.strip():
                self._line(line, f"{self._source.name}, line {number}", _description(above))
            above = []

    def _line(self, line: str, where: str, description: str) -> None:
        if found := _ASSIGNMENT.fullmatch(line):
            self._assign(found[2], _unquoted(found[3]), where)
        elif found := _JOB.fullmatch(line):
            self._job(found[1], found[2], where, description)
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

    def _job(self, schedule: str, rest: str, where: str, description: str) -> None:
        user, command = "", rest
        if self._has_users:
            user, command = [*rest.split(None, 1), ""][:2]
        if _SIXTH.fullmatch(rest.split(None, 1)[0]):
            reason = "it has six fields before the command, and cron reads five; for seconds write `every: 30s`"
            self._draft.leave_out(f"{where}, {_short(f'{schedule} {rest}')}", reason)
        elif not command:
            self._draft.leave_out(f"{where}, {_short(rest)}", "no command follows the user")
        elif schedule == "@reboot":
            reason = "there is no schedule for the start of the machine; a systemd unit of its own does that"
            self._draft.leave_out(f"{where}, {_short(rest)}", reason)
        else:
            self._entry(schedule, user, command, where, description)

    def _entry(self, schedule: str, user: str, command: str, where: str, description: str) -> None:
        words, given = _split(command)
        comments = [where]
        if _SUDO.search(words):
            comments.append("sudo and su do not work in jobs: remove them, and name that user as `user` of the group")
        if not self._has_users and (first := words.split(None, 1)[0]) in _ACCOUNTS:
            comments.append(f"`{first}` is taken for a program; if it is the user, import the file with --system")
        argv = [self._settings.shell, "-c", words]
        if PurePath(self._settings.shell).name in _SHELLS and not words.startswith("cd /"):
            argv[2] = f"cd; {words}"
        if given is not None:
            argv = [*_WITH_INPUT, given, *argv]
            comments.append("what follows a % without a backslash is the input of the command, as in cron")
        more = {"description": description} if description else {}
        task = self._draft.command(_name_of(words), self._queue(user), argv, *comments, **more)
        values: dict[str, Any] = {"task": task, **_timing(schedule)}
        if self._settings.timezone and "schedule" in values:
            values["timezone"] = self._settings.timezone
        if self._settings.jitter:
            values["jitter"] = f"{self._settings.jitter}m"
        self._draft.put("cron", task, {**values, "overlap": "allow"}, *_doubts(schedule))

    def _queue(self, user: str) -> str:
        """The queue of this user's commands with the present variables, which a group of the same name serves."""
        environment = self._settings.environment
        groups = self._draft.sections["workers"]
        values: dict[str, Any] = {"processes": 4, "drain_timeout": "5m"}
        values |= {"user": user} if user else {}
        values |= {"environment": environment} if environment else {}
        for name, group in groups.items():
            if {key: value for key, value in group.values.items() if key != "queues"} == values:
                return name
        name = self._draft.queue(_free(f"cron_{user}" if user else "cron", groups))
        return self._draft.group(name, {"queues": [name], **values})


def _has_users(source: SourceText) -> bool:
    """Whether the lines name a user behind the schedule: by the file's place, or by a heading."""
    path = Path(source.name).absolute()
    if path == Path("/etc/crontab") or path.parent == Path("/etc/cron.d"):
        return True
    jobs = [found[2] for line in source.text.split("\n") if (found := _JOB.fullmatch(line))
            and not line.lstrip().startswith("#") and not _ASSIGNMENT.fullmatch(line)]  # fmt: skip
    are_users = all(len(words := rest.split(None, 1)) == 2 and _USER.fullmatch(words[0]) for rest in jobs)
    return are_users and bool(_HEADING.search(source.text))


def _description(above: Sequence[str]) -> str:
    """What the comment above a line says, without lines that are commented out."""
    said = [
        line for line in above if not (_ASSIGNMENT.fullmatch(line) or (line[:1] in _BEGINS and _JOB.fullmatch(line)))
    ]
    return mask(" ".join(" ".join(said).split()))[:_LONGEST]


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
