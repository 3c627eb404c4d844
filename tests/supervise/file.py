"""The file of a daemon whose programs are stand-ins: its Redis is nowhere, and nobody asks it; and its operator."""

import subprocess
import sys


def file(workers="main: {processes: 2}", *, tasks="hello: {run: fusiond.tasks.echo}", more=""):
    """`workers`, `tasks`: what stands between their braces · `more`: further keys, as lines."""
    return (
        'broker: {url: "redis://localhost:1/"}\n'
        "defaults: {workers: {directory: /}}\n"
        f"tasks: {{{tasks}}}\nworkers: {{{workers}}}\n{more}"
    )


def supervisorctl(daemon, *words):
    """What it prints."""
    command = [sys.executable, "-m", "supervisor.supervisorctl", "-s", f"unix://{daemon.control}", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr
