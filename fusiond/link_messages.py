"""
What a program of the daemon and the supervisor say to each other: one JSON object in each packet of the program's link.

`Report` is what a program says, `Command` what it is told. A program that the program server forks is of the daemon's
version. If that server has ended, a program is a new interpreter: after an upgrade in place it may be newer than its
daemon. So each side ignores, or logs, a message that it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict

from fusiond.status_document import ChildNumbers

# -- of a program ------------------------------------------------------------------------------------------------------

#: it serves
Ready = TypedDict("Ready", {"is": Literal["ready"]})
#: it ends, since it cannot be ready or can go on no more; `tasks`: those that do not load, if that is why
Failed = TypedDict("Failed", {"is": Literal["failed"], "reason": str, "tasks": NotRequired[list[str]]})
#: it runs this generation; `left`: what the reload is to say of jobs that wait for what was removed
Applied = TypedDict("Applied", {"is": Literal["applied"], "generation": int, "left": NotRequired[list[str]]})
#: which tasks of a group cannot run and why, or what is wrong elsewhere; "": nothing any more
Shortfall = TypedDict("Shortfall", {"is": Literal["unloaded", "warning"], "reason": str})
#: from which environment files and release a fork server was started
Loaded = TypedDict("Loaded", {"is": Literal["loaded"], "environment": str, "release": Mapping[str, Any]})
#: while it drains or claims nothing: slots that its jobs use, jobs that run, and whether an answer of Redis is missing
Busy = TypedDict("Busy", {"is": Literal["busy"], "slots": int, "jobs": int, "waits": bool})
#: how many children a group with a range has, and why
Scaled = TypedDict("Scaled", {"is": Literal["scaled"], "numbers": ChildNumbers})
#: its loop runs; it can serve, or why not; `n`: of the question
Alive = TypedDict("Alive", {"is": Literal["alive"], "n": int})
Checked = TypedDict("Checked", {"is": Literal["checked"], "n": int, "trouble": str})

Report = Ready | Failed | Applied | Shortfall | Loaded | Busy | Scaled | Alive | Checked

# -- of the supervisor -------------------------------------------------------------------------------------------------

#: change in place to this snapshot, a path, and answer with `applied`
Apply = TypedDict("Apply", {"do": Literal["apply"], "snapshot": str, "generation": int})
#: a group that was on trial begins to claim
Go = TypedDict("Go", {"do": Literal["go"]})
#: leave so many slots to jobs of the group's former generation
Leave = TypedDict("Leave", {"do": Literal["leave"], "slots": int})
#: claim jobs, or none from now on
Claims = TypedDict("Claims", {"do": Literal["claims"], "on": bool})
#: begin nothing more, and end with the last job
Drain = TypedDict("Drain", {"do": Literal["drain"]})
#: say that you are alive, and whether you can serve; `n`: of the question
Answer = TypedDict("Answer", {"do": Literal["answer"], "n": int})
#: what has happened, in a word and in a sentence, and who asked for it
DaemonEvent = TypedDict("DaemonEvent", {"event": str, "message": str, "who": str})
#: an event is to be told: one in the spool, or this one, which could not be written there
Tell = TypedDict("Tell", {"do": Literal["tell"], "event": NotRequired[DaemonEvent]})

Command = Apply | Go | Leave | Claims | Drain | Answer | Tell
