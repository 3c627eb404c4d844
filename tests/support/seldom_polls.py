"""
What SELDOM_POLLS of tests/chaos/package.py is, without a copy of the code: a daemon or a group's program whose polls
make up for nothing, and which is a fork all the same.
"""

from fusiond import hook

_FILE = """
def hook(process, name, find):
    if process == "dispatcher":
        find("worker.dispatcher.claims.asking").POLL = 3600.0
        scripts = find("broker.script")
        shared = scripts._shared
        scripts._shared = lambda part: edited(part, shared(part))
        scripts.script.cache_clear()

def edited(part, text):
    if part != "wake":
        return text
    if "WAITS = 15000" not in text:
        raise ValueError("there is nothing to edit in wake.lua")
    return text.replace("WAITS = 15000", "WAITS = 3600000")

def handed():
    return None

def main(control, setup):
    import sys
    sys.modules[__package__ + ".forkserver"].main(control, setup)
"""


def seldom_polls(directory):
    """The environment of such a program; the directory keeps what it loads."""
    file = directory / "seldom_polls.py"
    file.write_text(_FILE)
    return {hook.VARIABLE: str(file)}
