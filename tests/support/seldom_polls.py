"""
What SELDOM_POLLS of tests/chaos/package.py is, without a copy of the code: a daemon or a group's program whose polls
make up for nothing, and which is a fork all the same.
"""

from fusiond import hook

_FILE = """
def hook(process, name, find):
    if process == "dispatcher":
        find("worker.dispatcher.claims.claim_planner").POLL = 3600.0
        scripts = find("broker.script")
        shared = scripts._shared
        scripts._shared = lambda part: edited(part, shared(part))
        scripts.script.cache_clear()

def edited(part, text):
    right, wrong = {
        "wake": ("WAITS = 15000", "WAITS = 3600000"),
        "claim_on_enqueue": ("COUNTS, KEPT = 6000,", "COUNTS, KEPT = 3600000,"),
    }.get(part, ("", ""))
    if right not in text:
        raise ValueError(f"there is nothing to edit in {part}.lua")
    return text.replace(right, wrong) if right else text
"""
#: the rest of a module for `hook.VARIABLE`: a fork server that does nothing else than ours
FORK_SERVER = """
def handed():
    return None

def main(control, setup):
    import sys
    sys.modules[__package__ + ".forkserver"].main(control, setup)
"""


def seldom_polls(directory):
    """The environment of such a program; the directory keeps what it loads."""
    file = directory / "seldom_polls.py"
    file.write_text(_FILE + FORK_SERVER)
    return {hook.VARIABLE: str(file)}
