"""
CronJobs of Kubernetes.

1. command   that of a CronJob's container becomes a task, on the host itself: there is no image, so the program must be
             installed there. `$(NAME)` is the value of a variable, as in Kubernetes; env(1) sets the variables
2. task      it has the deadline and the retries of the job template, and the container's directory
3. entry     when it ticks

Source of the format: the reference of CronJob v1, JobSpec v1 and PodSpec v1.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from fusiond.config.secrets import looks_secret, names_secret
from fusiond.config.units import written
from fusiond.importing.draft import Draft
from fusiond.importing.foreign_yaml import documents
from fusiond.importing.input_files import ImportOptions, ImportRefused, SourceText

_OVERLAP: Final = {"Allow": "allow", "Forbid": "skip", "Replace": "replace"}
_ZONE: Final = re.compile(r"(?:CRON_TZ|TZ)=(\S+)\s+(.*)")
_VARIABLE: Final = re.compile(r"(\$?)\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_QUEUE: Final = "kubernetes"
#: kubelet restarts a failed container so often at most, unless backoffLimit says otherwise
_BACKOFF_LIMIT: Final = 6
#: keys of a CronJob's and of its job's spec that nothing here stands for, with the reason
_WITHOUT: Final = {
    "successfulJobsHistoryLimit": "ended jobs are kept for a time: `result_ttl`",
    "failedJobsHistoryLimit": "failed jobs are kept for a time: `failure_ttl`",
    "parallelism": "one job runs the command once; enqueue as many as you need",
    "completions": "one job runs the command once; enqueue as many as you need",
    "completionMode": "one job runs the command once",
    "podFailurePolicy": "`exit_status` of the task says which statuses are tried again",
}
_OF_PODS: Final = {
    "initContainers": "the command of the container only is run; make a flow of several steps",
    "volumes": "the command sees the directories of the host",
    "nodeSelector": "`hosts` of the worker group says where it runs",
    "affinity": "`hosts` of the worker group says where it runs",
    "serviceAccount": "`user` of the worker group says as whom it runs",
    "serviceAccountName": "`user` of the worker group says as whom it runs",
    "securityContext": "`user` and `umask` of the worker group say as whom it runs",
}
_OF_CONTAINERS: Final = {
    "image": "there are no containers: the program must be installed on the host",
    "resources": "`max_memory` and `nice` of the worker group limit its children",
    "envFrom": "name a file of variables in `environment_file` of the worker group",
}


def read(inputs: Sequence[SourceText], draft: Draft, options: ImportOptions) -> None:
    """Put each CronJob of each file into the draft."""
    draft.remark("Kubernetes reads a schedule in the time zone of its controllers, mostly UTC, as an entry here does.")
    draft.of_tasks.values |= {"timeout": "1d"}
    draft.of_tasks.say("Kubernetes ends no job without activeDeadlineSeconds; here each task has a timeout")
    found = 0
    for each in inputs:
        for document in documents(each.name, each.text):
            for item in _items(document):
                found += _take(item, each.name, draft, options)
    if not found:
        raise ImportRefused(f"there is no CronJob in {', '.join(each.name for each in inputs)}")


def _items(document: Any) -> list[Any]:
    """The objects of a document: itself, or the items of a List."""
    if isinstance(document, dict) and document.get("kind") == "List":
        return _list(document, "items")
    return [document] if document is not None else []


def _take(item: Any, source: str, draft: Draft, options: ImportOptions) -> bool:
    """Put an object into the draft if it is a CronJob."""
    kind = item.get("kind") if isinstance(item, dict) else None
    if kind != "CronJob":
        draft.leave_out(f"{source}: {kind or 'an object without a kind'}", "only a CronJob is a schedule of a command")
        return False
    _CronJob(item, source, draft, options).put()
    return True


class _CronJob:
    """One CronJob."""

    def __init__(self, item: dict[str, Any], source: str, draft: Draft, options: ImportOptions) -> None:
        self._draft, self._zone = draft, options.timezone
        self.name = str(_map(item, "metadata").get("name") or "unnamed")
        self._where = f"{source}: {self.name}"
        self._spec = _map(item, "spec")
        self._job = _map(self._spec, "jobTemplate", "spec")
        self._pod = _map(self._job, "template", "spec")
        containers = _list(self._pod, "containers")
        self._container = containers[0] if containers and isinstance(containers[0], dict) else {}
        if len(containers) > 1:
            self._without("further containers", "the command of the first one only is run")

    def put(self) -> None:
        """Put it into the draft."""
        for map_, reasons in (
            (self._spec, _WITHOUT), (self._job, _WITHOUT), (self._pod, _OF_PODS), (self._container, _OF_CONTAINERS),
        ):  # fmt: skip
            for key, reason in reasons.items():
                if map_.get(key):
                    self._without(key, reason)
        environment = self._environment()
        command, given = (_list(self._container, key) for key in ("command", "args"))
        words = [self._expanded(str(word), environment) for word in [*command, *given]]
        # Where it has `args` only, they are the whole command, or options of a program that its image names.
        if not words or (not command and words[0].startswith("-")):
            self._without("command", "its image's program is run, which is not known here; add a task that names it")
            return
        if not command:
            self._without("command", "`args` were taken for it; if its image has an entry point, write it before them")
        self._group()
        if environment:
            words = ["env", *(f"{name}={value}" for name, value in environment.items()), *words]
        values = {"task": self._task(words), **self._timing()}
        self._draft.put("cron", self.name, values, self._where)

    def _timing(self) -> dict[str, Any]:
        text, zone = str(self._spec.get("schedule") or ""), self._spec.get("timeZone") or self._zone
        if found := _ZONE.fullmatch(text):
            zone, text = found[1], found[2]
        values: dict[str, Any] = {"schedule": text, **({"timezone": str(zone)} if zone else {})}
        if text.startswith("@every "):
            values = {"every": text.split()[1]}
        overlap = str(self._spec.get("concurrencyPolicy") or "Allow")
        values["overlap"] = _OVERLAP.get(overlap, overlap)
        values["missed"] = "last"
        if deadline := _seconds(self._spec.get("startingDeadlineSeconds")):
            values["starting_deadline"] = written(deadline)
        if self._spec.get("suspend") is True:
            values["suspended"] = True
        return values

    def _task(self, words: list[str]) -> str:
        """A task with the deadline and the retries of the job template."""
        settings: dict[str, Any] = {"retry": self._policy()}
        comments = []
        if directory := self._container.get("workingDir"):
            settings["directory"] = str(directory)
        if deadline := _seconds(self._job.get("activeDeadlineSeconds")):
            settings["timeout"] = written(deadline)
            comments = ["activeDeadlineSeconds is for all attempts together; here each one has this time"]
        if keep := _seconds(self._job.get("ttlSecondsAfterFinished")):
            settings |= {"result_ttl": written(keep), "failure_ttl": written(keep)}
        return self._draft.command(self.name, _QUEUE, words, *comments, **settings)

    def _policy(self) -> str:
        limit = self._job.get("backoffLimit", _BACKOFF_LIMIT)
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
            limit = _BACKOFF_LIMIT
        if limit == 0:
            return "none"
        values = {"max_attempts": limit + 1, "delay": "10s", "max_delay": "6m"}
        return self._draft.put("retry_policies", f"backoff_limit_{limit}", values)

    def _group(self) -> None:
        self._draft.queue(_QUEUE)
        values = {"queues": [_QUEUE], "processes": 4, "drain_timeout": "5m"}
        self._draft.group(_QUEUE, values, "the commands of all CronJobs; each takes a process while it runs")

    def _environment(self) -> dict[str, str]:
        """The variables whose values are in the manifest, and are not secrets."""
        found: dict[str, str] = {}
        for each in _list(self._container, "env"):
            name = str(each.get("name")) if isinstance(each, dict) else "?"
            value = each.get("value") if isinstance(each, dict) else None
            if value is None:
                self._without(f"env {name}", "its value is elsewhere; `environment_file` of the group can name a file")
            elif names_secret(name) or looks_secret(str(value)):
                self._without(f"env {name}", "it seems to be a secret: put it into a file of `environment_file`")
            else:
                found[name] = self._expanded(str(value), found)
        return found

    def _expanded(self, word: str, environment: dict[str, str]) -> str:
        """With each `$(NAME)` of a known variable replaced; `$$(NAME)` is the text itself."""

        def value(found: re.Match[str]) -> str:
            if found[1]:
                return found[0][1:]
            if found[2] not in environment:
                self._without(found[0], "the value of this variable is not in the manifest; no shell replaces it")
            return environment.get(found[2], found[0])

        return _VARIABLE.sub(value, word)

    def _without(self, what: str, reason: str) -> None:
        self._draft.leave_out(f"{self._where}, {what}", reason)


def _map(around: dict[str, Any], *path: str) -> dict[str, Any]:
    """The map at the end of a path; an empty one if there is none."""
    for key in path:
        inner = around.get(key)
        around = inner if isinstance(inner, dict) else {}
    return around


def _list(around: dict[str, Any], key: str) -> list[Any]:
    found = around.get(key)
    return found if isinstance(found, list) else []


def _seconds(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**8 else 0
