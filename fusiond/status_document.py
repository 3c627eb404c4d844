"""
What a daemon says of itself: its answer to `status` on the control socket, one JSON object, `StatusDocument`.

The supervisor writes it, in `supervise/supervisord/rpc.py`. Commands, the dashboard and the metrics read it, and
`fusiond status --json` prints it as `daemon`. Each answer has all fields; what is not there is null or empty. Times are
in seconds, moments in epoch seconds, paths are absolute.

A daemon goes on with its version when another is installed, so a reader may be newer than the daemon: a field that is
added after 0.1.0 must be NotRequired here.
"""

from typing import Any, Literal, TypedDict

ReloadResult = Literal["applied", "unchanged", "refused"]
#: why a group got another number of children. `latency`: a job had waited for too long; `backlog`: what waited would
#: have to; `quiet`: some children had no job for a while
ScalingReason = Literal["latency", "backlog", "quiet"]

# fmt: off
# -- a program ---------------------------------------------------------------------------------------------------------

#: the children of a group whose `processes` is a range. Empty: it is a number, or the program has not said yet
ChildNumbers = TypedDict("ChildNumbers", {
    # `processes`: how many there are; `range`: the least and the most
    "processes": int, "range": list[int],
    # `changes`: how often their number has changed since the group's start, without reasons for which it never has;
    # `why`: the last change, for people; "": there was none
    "changes": dict[ScalingReason, int], "why": str,
}, total=False)

#: where a path of a group's `reload_on` leads, without symlinks; null: to nothing. `loaded`: when the program loaded
#: its code; `now`: now; `switched`: it leads to another release now, or its file was changed
LoadedRelease = TypedDict("LoadedRelease", {"loaded": str | None, "now": str | None, "switched": bool})

#: a program of the daemon, and its process
ProgramStatus = TypedDict("ProgramStatus", {
    # `ready`: it has said that it is; `serves`: besides, it can do its work now, and answers when the supervisor asks
    "ready": bool, "serves": bool,
    # `draining`: it ends with its last job; `trial`: it was started for a configuration that is not accepted yet;
    # `stopped_by_operator`: by `supervisorctl stop`, which holds until an operator starts it again
    "draining": bool, "trial": bool, "stopped_by_operator": bool,
    # how its last process ended: exit status, or minus the signal; null: none has ended
    "last_exit": int | None,
    # how often it has ended by itself in a row; a minute of service ends the row
    "deaths": int,
    # jobs that still run, while it drains or may not claim; null: it has not said
    "busy": int | None,
    # until it is started again; null: it does not wait for that
    "retry_in": float | None,
    # `unloaded`: which of its tasks do not load, and why; `warning`: which jobs nobody can run, of the scheduler;
    # `reason`: what is wrong with it, or why it ended. "": nothing
    "unloaded": str, "warning": str, "reason": str,
    "scaled": ChildNumbers,
    # it drains or may not claim, and runs no job, but Redis has not answered it: a job may come, or is not settled yet
    "waits_for_redis": bool,
    # `part`: what the file names, such as `worker:main`; `name`: for a group with the generation, `worker:main@3`
    "name": str, "part": str,
    # such as RUNNING; `supervise/supervisord/process.py` explains them
    "state": str,
    # the configuration that runs has it
    "wanted": bool,
    # of its process; null: there is none
    "pid": int | None, "uptime": float | None,
    # of the configuration that it has read
    "generation": int,
    # the last lines that it logged before it ended by itself; none while it is ready
    "last_words": list[str],
    # path → where it leads
    "release": dict[str, LoadedRelease],
})

# -- the daemon --------------------------------------------------------------------------------------------------------

#: how a reload or rollback ended; also the answer to these two verbs
ReloadOutcome = TypedDict("ReloadOutcome", {
    "result": ReloadResult,
    # of the configuration that ran then
    "generation": int, "hash": str,
    # such as `SIGHUP`, `the file's change`, `fusiond reload by alice`
    "asked_by": list[str],
    # `seconds`: how long it took
    "seconds": float, "ended_at": float,
    # why it was refused, for people, perhaps in many lines; "": it was not
    "reason": str,
    # what is wrong with the file, each as of `config.problems.Problem`
    "problems": list[dict[str, Any]],
    # what was done, as of `config.accepted.plan.Plan`; null: nothing
    "plan": dict[str, Any] | None,
    # the generation that a rollback brought back; 0: none
    "restores": int,
    # `warnings`: what went wrong although the configuration was accepted; `summary`: all of it for people, whose first
    # line is the result
    "warnings": list[str], "summary": str,
})
#: who has told the groups of this host to claim nothing, and when
Drained = TypedDict("Drained", {"by": str, "since": float})
#: the server of `broker: {url: embedded}` that wrote the data last: `Redis` or `Valkey`, a version such as `8.0.2`
EmbeddedServer = TypedDict("EmbeddedServer", {"name": str, "version": str, "path": str})

#: which file the daemon runs; also the answer to `identity`
Identity = TypedDict("Identity", {
    # `pid`: of the supervisor; `version`: of fusiond
    "pid": int, "version": str,
    # `source`: the file, by the path that the daemon was given; `development`: it is `fusiond dev`
    "source": str, "development": bool,
    # `snapshot`: the file in which the configuration is kept that runs
    "state_directory": str, "runtime_directory": str, "snapshot": str,
})
#: how the daemon is
DaemonStatus = TypedDict("DaemonStatus", {
    "uptime": float,
    # `ready`: every group serves, Redis answers, and the daemon does not end; `unready`: program → why it does not
    # serve, without the dashboard, sinks and outboxes, which jobs do not need
    "ready": bool, "unready": dict[str, str],
    # groups whose `hosts` leave this host out
    "of_other_hosts": list[str],
    # each wanted program is ready, cannot be, or was stopped by an operator
    "settled": bool,
    # it was told to end
    "ending": bool,
    # `drained`: null: the groups may claim; `drained_queues`: from which they would, if they are drained
    "drained": Drained | None, "drained_queues": list[str],
    # of the configuration that runs; `restores`: the generation that a rollback brought back; 0: it is the file's
    "generation": int, "hash": str, "restores": int,
    # null: there is none, or it was never ready
    "server": EmbeddedServer | None,
    # the file says something else than what runs: it was refused, or rolled back, or left out at the start
    "file_differs": bool,
    # `reload`: the last one; null: there was none; `reloads`: result → how many had it since the daemon's start,
    # without a result that none had
    "reload": ReloadOutcome | None, "reloads": dict[ReloadResult, int],
    # also those that drain or are on trial
    "programs": list[ProgramStatus],
})


class StatusDocument(Identity, DaemonStatus):
    """The whole answer."""
