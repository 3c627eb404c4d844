"""Completion in the real shells, those of them that this machine has."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.running import until

#: what the shell runs behind the stub that a package installs: prints what it offers for the line $1
_ASK = {
    "bash": 'IFS=" "; COMP_LINE=$1; COMP_POINT=${#1}; COMP_TYPE=9; _python_argcomplete fusiond; unset IFS\n'
    'printf "%s\\n" "${COMPREPLY[@]}"',
    # The widgets of completion exist at a prompt only: these print what they are given.
    "zsh": """\
words=(${=1}); BUFFER=$1; CURSOR=${#1}
_describe() { local each; for each in "${(@P)2}"; do print -r -- ${each%%:*}; done }
_python_argcomplete""",
    "fish": 'complete -C "$argv[1]" | string replace -r "\\t.*" ""',
}


#: what packages install
STUBS = Path(__file__).parents[2] / "etc" / "completion"
#: as it is where somebody completes a command line: the shell finds the program
HERE = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def offered(shell, line, **environment):
    """What completes the line."""
    if not shutil.which(shell):
        pytest.skip(f"no {shell} here")
    stub = (STUBS / f"fusiond.{shell}").read_text()
    text = "compdef() { }\n" + stub.replace('_python_argcomplete "$@"', "") if shell == "zsh" else stub
    run = ["--norc", "-c"] if shell == "bash" else ["-f", "-c"] if shell == "zsh" else ["--no-config", "-c"]
    name = [] if shell == "fish" else [shell]
    done = subprocess.run(
        [shell, *run, f"{text}\n{_ASK[shell]}", *name, line],
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
    assert offered(shell, "fusiond completion ") >= {"zsh", "bash", "fish"}
    assert "--help" not in offered(shell, "fusiond completion ")
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


def test_an_option_of_the_line_names_the_broker(desk):
    """`--url` before the word that is completed."""
    assert until(lambda: offered("bash", f"fusiond suspend --url {desk.settings.url} de")) == {"default"}
