"""
`fusiond completion`: what bash, zsh and fish need to complete a command line.

1. read   every command from the parser itself: its subcommands, its options, and the words that an option takes
2. write  a script of one shell: it walks along the words to the command that they name, and offers what that one takes
3. name   the queues, tasks, groups and newest jobs that there are: the scripts run `fusiond completion queues` for them

The scripts in `share/` of the wheel are the output of this command; a test keeps them so.
"""

from __future__ import annotations

import argparse
import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import arguments
from fusiond.cli.exits import REFUSED
from fusiond.cli.find import broker
from fusiond.cli.terminal.text import one_line
from fusiond.job import JobStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


_SHELLS: Final = ("bash", "zsh", "fish")
_NAMES: Final = ("queues", "tasks", "groups", "jobs")
#: as an argument is called in the help → the names that it takes
_KINDS: Final = {"Q": "queues", "QUEUE": "queues", "TASK": "tasks", "GROUP": "groups", "JOB": "jobs"}
#: newest jobs that are offered, and seconds that the broker may take
_JOBS: Final = 50
_PATIENCE: Final = 3


def register(subparsers: Any) -> None:
    """Add `completion`."""
    parser = arguments.command(subparsers, "completion", _completion)
    what = "bash, zsh, fish; or queues, tasks, groups, jobs, which prints the names that the shells ask for"
    parser.add_argument("what", choices=(*_SHELLS, *_NAMES), metavar="SHELL", help=what)
    arguments.add_broker(parser)


def _completion(options: arguments.Options) -> None:
    """
    Print what a shell needs to complete commands and options.

    bash: source <(fusiond completion bash). zsh: the same with zsh. fish: fusiond completion fish | source.
    """
    if options.what in _SHELLS:
        print(script(options.what), end="")
        return
    # Who presses Tab while Redis is away gets no names, and soon.
    signal.signal(signal.SIGALRM, lambda *_: os._exit(REFUSED))
    signal.alarm(_PATIENCE)
    with broker.session(options) as session:
        print("\n".join(map(one_line, _names(session, options.what))))


def _names(session: broker.Session, kind: str) -> list[str]:
    """What there is of a kind."""
    if kind == "queues":
        return session.queues()
    if kind == "groups":
        found = session.run(session.verbs.workers())
        return sorted({worker.fields["group"] for worker in found if worker.fields.get("group")})
    if kind == "tasks":
        return sorted(session.run(session.verbs.catalogue()).tasks)
    from fusiond.cli.job.search import JobFilter, search

    statuses = [status.value for status in JobStatus]
    return [job.name for job in search(session, session.queues(), statuses, JobFilter(), limit=_JOBS, depth=_JOBS).jobs]


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a command."""

    #: such as -c and --config
    names: Sequence[str]
    help: str
    #: the words that it takes; empty: any, or it takes none
    words: Sequence[str]
    takes_value: bool
    #: it takes names of this kind, one of _NAMES; empty: it does not
    names_of: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command and what may follow it."""

    #: such as ` job list`; empty: the program itself
    path: str
    #: subcommand → its one-line help
    below: dict[str, str]
    options: Sequence[Option]
    #: the words that its positional argument takes
    words: Sequence[str]
    #: that takes names of this kind
    names_of: str

    @property
    def flags(self) -> list[str]:
        """The names of all options."""
        return [name for option in self.options for name in option.names]


def script(shell: str) -> str:
    """The script of `bash`, `zsh` or `fish`."""
    from fusiond.cli import parser

    makers: dict[str, Callable[[list[Command]], Iterator[str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    return "\n".join(makers[shell](list(_commands(parser())))) + "\n"


def _commands(parser: argparse.ArgumentParser, path: str = "") -> Iterator[Command]:
    below: dict[str, str] = {}
    parsers: dict[str, argparse.ArgumentParser] = {}
    words: list[str] = []
    names_of = ""
    options = []
    for action in parser._actions:  # noqa: SLF001 - argparse has no public list of them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - nor a public class of this one
            helps = {choice.dest.split(" ")[0]: choice.help or "" for choice in action._choices_actions}  # noqa: SLF001
            parsers = dict(action.choices)
            below = {name: _line(helps.get(name, "")) for name in parsers}
        elif action.option_strings:
            options.append(
                Option(
                    action.option_strings,
                    _line(action.help or ""),
                    _words(action),
                    takes_value=action.nargs != 0,
                    names_of=_kind(action),
                )
            )
        else:
            words += _words(action)
            names_of = names_of or _kind(action)
    yield Command(path, below, options, words, names_of)
    for name, each in parsers.items():
        yield from _commands(each, f"{path} {name}")


def _words(action: argparse.Action) -> list[str]:
    return [str(choice) for choice in action.choices or ()]


def _kind(action: argparse.Action) -> str:
    return _KINDS.get(str(action.metavar), "")


def _line(text: str) -> str:
    """A help without what a shell would read as its own."""
    return text.replace("%%", "%").replace("'", "’").replace("\\", "").replace("`", "").replace(":", " ")


def _command(kind: str, program: str) -> str:
    """What prints the names of that kind."""
    return f"{program} completion {kind} 2>/dev/null"


def _asked(kind: str, program: str) -> str:
    return f"$({_command(kind, program)})"


def _paths(commands: list[Command]) -> str:
    """As a pattern of `case`: the path of each command but the program."""
    return " | ".join(f'"{command.path}"' for command in commands if command.path)


def _values(commands: list[Command], program: str) -> Iterator[tuple[str, str]]:
    """Of each option that takes a value: `<path of its command>,<name>`, and the words that it takes."""
    for command in commands:
        for option in command.options:
            for name in option.names if option.takes_value else ():
                words = _asked(option.names_of, program) if option.names_of else " ".join(option.words)
                yield f"{command.path},{name}", words


def _bash(commands: list[Command]) -> Iterator[str]:
    yield """\
# bash completion of fusiond, made by `fusiond completion bash`
_fusiond() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} path="" words="" i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$path ${COMP_WORDS[i]}" in"""
    yield f"""\
      {_paths(commands)}) path="$path ${{COMP_WORDS[i]}}" ;;
    esac
  done
  case "$path,$prev" in"""
    for place, words in _values(commands, "${COMP_WORDS[0]}"):
        yield f'    "{place}") words="{words}"; prev="" ;;'
    yield """\
    *) prev=done ;;
  esac
  [ -z "$prev" ] && { COMPREPLY=($(compgen -W "$words" -- "$cur")); return; }
  case "$path" in"""
    for command in commands:
        words = " ".join([*command.below, *command.words])
        words += _asked(command.names_of, "${COMP_WORDS[0]}") if command.names_of else ""
        yield f'    "{command.path}") case "$cur" in -*) words="{" ".join(command.flags)}" ;;'
        yield f'      *) words="{words}" ;; esac ;;'
    yield """\
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _fusiond fusiond"""


def _zsh(commands: list[Command]) -> Iterator[str]:
    yield """\
#compdef fusiond
# zsh completion of fusiond, made by `fusiond completion zsh`
_fusiond() {
  local place="" word last=${words[CURRENT-1]}
  local -a found
  for word in ${words[2,CURRENT-1]}; do
    case "$place $word" in"""
    yield f"""\
      {_paths(commands)}) place="$place $word" ;;
    esac
  done
  case "$place,$last" in"""
    for place, words in _values(commands, "$words[1]"):
        does = f"compadd -- {words}" if words else "_files"
        yield f'    "{place}") {does}; return ;;'
    yield """\
  esac
  case "$place" in"""
    for command in commands:
        offered = [f"'{name}:{said}'" for name, said in command.below.items()] + [f"'{word}'" for word in command.words]
        flags = [f"'{name}:{option.help}'" for option in command.options for name in option.names]
        if command.names_of:
            offered.append(f'${{(f)"${{$({_command(command.names_of, "$words[1]")})//:/\\\\:}}"}}')
        yield f'    "{command.path}") if [[ $PREFIX == -* ]]; then found=({" ".join(flags)})'
        yield f"      else found=({' '.join(offered)}); fi ;;"
    yield """\
  esac
  if (( ${#found} )); then _describe fusiond found; else _files; fi
}
if [[ ${funcstack[1]} == _fusiond ]]; then _fusiond "$@"; else compdef _fusiond fusiond; fi"""


def _fish(commands: list[Command]) -> Iterator[str]:
    yield """\
# fish completion of fusiond, made by `fusiond completion fish`
function __fusiond_at
  set -l place ""
  for word in (commandline -opc)[2..-1]
    switch "$place $word\""""
    yield f"""\
      case {" ".join(f"'{command.path}'" for command in commands if command.path)}
        set place "$place $word"
    end
  end
  test "$place" = "$argv[1]"
end"""
    for command in commands:
        at = f"complete -c fusiond -n '__fusiond_at \"{command.path}\"'"
        for name, said in command.below.items():
            yield f"{at} -f -a {name} -d '{said}'"
        if command.words:
            yield f"{at} -f -a '{' '.join(command.words)}'"
        if command.names_of:
            yield f"{at} -f -a '({_command(command.names_of, 'fusiond')})'"
        for option in command.options:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            words = f"({_command(option.names_of, 'fusiond')})" if option.names_of else " ".join(option.words)
            value = f" -x -a '{words}'" if words else " -r" if option.takes_value else ""
            yield f"{at} {names}{value} -d '{option.help}'"
