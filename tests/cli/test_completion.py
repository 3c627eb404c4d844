"""Completion in the real shells, those of them that this machine has."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fusiond.cli.completion import script
from tests.man_page import SCRIPTS
from tests.support.running import until

#: what the shell runs behind our script: prints what it offers for the words of $1, of which the last is completed
_ASK = {
    "bash": 'COMP_WORDS=($1); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _fusiond; printf "%s\\n" "${COMPREPLY[@]}"',
    # The widgets of completion exist at a prompt only: these print what they are given.
    "zsh": """\
words=(${=1}); CURRENT=$#words; PREFIX=$words[-1]
_fusiond_found() { local each; for each in "$@"; do [[ $each == $PREFIX* ]] && print -r -- ${each%%:*}; done }
_describe() { _fusiond_found "${(@P)2}" }
compadd() { shift; _fusiond_found "$@" }
_files() { }
_fusiond""",
    "fish": 'complete -C "$argv[1]" | string replace -r "\\t.*" ""',
}


#: as it is where somebody completes a command line: the shell finds the program
HERE = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def offered(shell, line, **environment):
    """What completes the line."""
    if not shutil.which(shell):
        pytest.skip(f"no {shell} here")
    text = "compdef() { }\n" + script(shell) if shell == "zsh" else script(shell)
    run = ["--norc", "-c"] if shell == "bash" else ["-f", "-c"] if shell == "zsh" else ["--no-config", "-c"]
    name = [] if shell == "fish" else [shell]
    done = subprocess.run(
        [shell, *run, text + _ASK[shell], *name, line],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=os.environ | HERE | environment,
    )
    assert done.stderr == ""
    return set(done.stdout.split())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_offers_commands_options_and_words(shell):
    """At each depth what that command takes; behind an option its words; nothing of another command."""
    assert offered(shell, "fusiond dra") == {"drain"}
    assert offered(shell, "fusiond job ca") == {"cancel"}
    assert offered(shell, "fusiond broken show --u") == {"--url"}
    assert offered(shell, "fusiond job list --status fa") == {"failed"}
    assert offered(shell, "fusiond completion z") == {"zsh"}
    assert offered(shell, "fusiond queue purge --y") == {"--yes"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_offers_the_names_that_there_are(shell, desk):
    """Queues, tasks and jobs, behind options and as arguments; none while Redis is away."""
    name = desk.enqueued("send").replace(":", "\\:" if shell == "zsh" else ":")
    here = {"FUSION_URL": desk.settings.url}

    def names(line):
        # On a busy machine the command may give up after its three seconds: the next Tab asks again.
        return until(lambda: offered(shell, line, **here))

    assert names("fusiond suspend de") == {"default"}
    assert names("fusiond job list --queue re") == {"reports"}
    assert names("fusiond enqueue se") == {"send"}
    assert any(name.startswith(each) for each in names("fusiond job show default/"))
    assert "default" not in offered(shell, "fusiond suspend de", **here | {"FUSION_URL": "unix:///nothing.sock"})


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_wheel_has_what_the_command_prints(shell):
    """`python -m tests.man_page` writes them."""
    assert SCRIPTS[shell].read_text() == script(shell), "run `python -m tests.man_page`"
