"""Releases of an application, as a deployment makes them: `releases/41`, and the link `current` to one of them."""

import sys

VERSION = "def version():\n    import inner\n    return inner.NUMBER\n"


def make(daemon, number, source=VERSION):
    """Make releases/NUMBER."""
    directory = daemon.app / "releases" / str(number)
    (directory / "bin").mkdir(parents=True)
    (directory / "bin" / "python").symlink_to(sys.executable)
    (directory / "shop.py").write_text(
        source + "def late(gate, began):\n    import stories\n    stories.hold(gate, began)\n    return version()\n"
        "def python():\n    import sys\n    return sys.executable\n"
    )
    (directory / "lib").mkdir()
    (directory / "lib" / "inner.py").write_text(f"NUMBER = {number}\n")
    (directory / "stories.py").write_text((daemon.app / "stories.py").read_text())
    return directory


def switch(daemon, number):
    """Let `current` lead to a release: another link, renamed over it."""
    fresh = daemon.app / "fresh"
    fresh.symlink_to(f"releases/{number}")
    fresh.replace(daemon.app / "current")


def release(daemon, number, source=VERSION):
    """Make a release, and switch to it."""
    make(daemon, number, source)
    switch(daemon, number)


def body(daemon, workers="main: {processes: 2}", more=""):
    """A file whose groups run the code of `current`, a part of it by a path of the environment."""
    tasks = "  version: {run: shop.version}\n  late: {run: shop.late}\n  python: {run: shop.python}\n"
    whole = daemon.body(workers, tasks=tasks, more=more)
    current = f"{daemon.app}/current"
    place = f"directory: {current}, python: bin/python, environment: {{PYTHONPATH: {current}/lib}}"
    return whole.replace(f"directory: {daemon.app}", place)
