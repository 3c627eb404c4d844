"""docs/fusiond.1 as the command line gives it: `python -m tests.man_page` writes them."""

import argparse
from pathlib import Path

from fusiond.cli import parser

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "fusiond.1"
_HEAD = """\
.TH FUSIOND 1 "" fusiond "User Commands"
.SH NAME
fusiond \\- a job runner that is described in one YAML file
.SH SYNOPSIS
.B fusiond
.I COMMAND
[\\fIOPTION\\fR ...]
.SH DESCRIPTION
fusiond runs jobs that wait in Redis.
One YAML file declares queues, priorities, timeouts, retries, schedules and worker groups.
The daemon runs the workers and the schedules of the file, and applies each change of it.
.SH COMMANDS
"""
_FILES = """\
.SH FILES
.TP
.I /etc/fusion.yaml
The file, where neither
.B \\-c
nor
.B FUSION_CONFIG
names another one and the current directory has no
.IR fusion.yaml .
.TP
.I /etc/fusion-NAME.yaml
The file of the instance NAME:
.BR \\-\\-instance .
.SH ENVIRONMENT
.TP
.B FUSION_CONFIG
The path of the file.
.TP
.B FUSION_URL
The URL of the broker, for commands that ask Redis.
.TP
.B NO_COLOR
Any value turns colour off.
.SH SEE ALSO
The documentation is installed in
.IR share/doc/fusiond ,
below the prefix of the Python environment.
"""


def page():
    """The whole page."""
    top = parser()
    commands = "".join(_command(f"fusiond {name}", each, said) for name, each, said in _below(top))
    return _HEAD + commands + ".SH EXIT STATUS AND DISCOVERY\n" + _lines(top.epilog) + _FILES


def _below(top):
    """Each command: its name, parser and one-line help; aliases are left out."""
    for action in top._subparsers._group_actions if top._subparsers else []:
        helps = {choice.dest: choice.help for choice in action._choices_actions}
        for choice in action._choices_actions:
            name = choice.dest.split()[0]
            yield name, action.choices[name], helps[choice.dest]


def _command(name, parser, said):
    deeper = "".join(_command(f"{name} {below}", each, words) for below, each, words in _below(parser))
    if deeper:
        return deeper
    options = [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]
    shown = "".join(_option(action) for action in options if action.help != argparse.SUPPRESS)
    indented = f".RS\n{shown}.RE\n" if shown else ""
    return f".TP\n.B {_text(name)}\n{_lines(said or parser.description or '')}{indented}"


def _option(action):
    names = ", ".join(f"\\fB{_text(name)}\\fR" for name in action.option_strings)
    takes = action.nargs != 0
    value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    value = " ".join(value) if isinstance(value, tuple) else value
    shown = f"{names} \\fI{_text(value)}\\fR" if names and takes else names or f"\\fI{_text(value)}\\fR"
    return f".TP\n{shown}\n{_lines((action.help or '').replace('%%', '%'))}"


def _lines(text):
    """Text as roff: no line begins with a control character."""
    lines = (_text(line) for line in text.strip().splitlines())
    return "".join(f"\\&{line}\n" if line[:1] in {".", "'"} else f"{line}\n" for line in lines)


def _text(text):
    return text.replace("\\", "\\e").replace("-", "\\-").replace("·", "\\(bu").replace("…", "...")


if __name__ == "__main__":
    PAGE.write_text(page())
    print(PAGE)
