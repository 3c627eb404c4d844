"""Configuration: what runs and where each value comes from, what a reload would do, the history; reload, roll back."""

from __future__ import annotations

import asyncio
import dataclasses
import difflib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from fusiond import paths
from fusiond.config.accepted import explain, history
from fusiond.config.accepted.plan import Effects
from fusiond.config.load import load
from fusiond.config.model import Config, rebuild
from fusiond.config.secrets import HIDDEN, hidden_config
from fusiond.status_document import ReloadOutcome
from fusiond.web.backend import Backend
from fusiond.web.endpoint import Done, NotThere, WebCall, acts, reads, view_of
from fusiond.web.inputs import Input
from fusiond.web.pages.refused_files import FileText, ProblemRow, placed

#: seconds that a reload, and the reading of the file, may take
_RELOAD: Final = 120.0
_PLAN: Final = 40.0
#: lines of a difference
_MOST: Final = 2000
_EXPLAINED: Final[dict[str, Callable[..., list[explain.Value]]]] = {
    "tasks": explain.task,
    "queues": explain.queue,
    "workers": explain.group,
    "cron": explain.cron,
    "flows": explain.flow,
}
_GENERATION = Input(
    "generation", "the number of a generation", "path", "number", least=1, most=10**9 - 1, required=True
)
_LATER = Input("later", "answer at once, without the plan", form="switch")
_NAMED = (
    Input("kind", "which section of the file", "path", words=tuple(_EXPLAINED), required=True),
    Input("name", "the name of an entry", "path", pattern="[A-Za-z0-9_.-]{1,100}", required=True),
)


@dataclass(frozen=True, slots=True)
class GenerationRow:
    """One accepted configuration."""

    generation: int
    #: epoch ms
    at: int
    asked_by: list[str]
    changes: str
    #: the generation to which a rollback went; 0: it was read from the file
    restores: int
    hash: str


@dataclass(frozen=True, slots=True)
class Configuration:
    """What runs on this host."""

    source: str
    generation: int
    #: whether the file says something else than what runs
    file_differs: bool
    #: how the last reload ended, and why it was refused; empty: there was none
    last_result: str
    last_reason: str
    problems: list[ProblemRow]
    #: the files with the problems in their places, and those problems that have none
    files: list[FileText]
    others: list[ProblemRow]
    #: section → names
    names: dict[str, list[str]]
    history: list[GenerationRow]


@dataclass(frozen=True, slots=True)
class ReloadPlan:
    """What a reload would do now."""

    refused: bool
    #: why it would be refused
    reason: str
    problems: list[ProblemRow]
    #: where it would be refused: the files with the problems in their places, and those problems that have none
    files: list[FileText]
    others: list[ProblemRow]
    #: for people, one for each kind of change
    changes: list[str]
    #: it was not asked for yet
    later: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """One generation against the one before it."""

    generation: int
    before: int
    lines: list[str]
    #: there are more
    cut: bool


@dataclass(frozen=True, slots=True)
class Origin:
    """One effective value."""

    key: str
    shown: str
    #: `fusion.yaml:12`, or `built in`
    where: str
    #: the key that sets it, if it is another one
    set_by: str


@dataclass(frozen=True, slots=True)
class Origins:
    """Where each value of an entry comes from."""

    kind: str
    name: str
    values: list[Origin]
    #: the file says something else than what runs: the values are those of the file
    differs: bool


async def _show(call: WebCall) -> Configuration:
    backend = call.backend
    status = await backend.status()
    last = status and status["reload"]
    kept = await asyncio.to_thread(_entries, backend)
    problems = _problems(last["problems"] if last else [])
    files, others = await asyncio.to_thread(placed, problems)
    return Configuration(
        source=backend.source,
        generation=backend.generation,
        file_differs=status is not None and status["file_differs"],
        last_result=last["result"] if last else "",
        last_reason=last["reason"] if last else "",
        problems=problems,
        files=files,
        others=others,
        names={kind: sorted(getattr(backend.config, kind)) for kind in _EXPLAINED},
        history=[
            view_of(GenerationRow, entry, at=round(entry.accepted_at * 1000), hash=entry.hash[:12])
            for entry in reversed(kept)
        ],
    )


def _entries(backend: Backend) -> list[history.Entry]:
    return history.entries(paths.history(backend.state), of=backend.source)


def _problems(said: list[dict[str, Any]]) -> list[ProblemRow]:
    names = [field.name for field in dataclasses.fields(ProblemRow)]
    return [ProblemRow(**{name: each[name] for name in names}) for each in said]


async def _plan(call: WebCall) -> ReloadPlan:
    """The daemon reads the file in a process of its own, which takes a moment: a page may come first."""
    if call["later"]:
        return ReloadPlan(refused=False, reason="", problems=[], files=[], others=[], changes=[], later=True)
    said = await call.backend.ask_daemon("plan", patience=_PLAN)
    problems = _problems(said["problems"])
    if said["effects"] is None:
        files, others = await asyncio.to_thread(placed, problems)
        return ReloadPlan(True, said["reason"], problems, files, others, [])
    plan = rebuild(Effects, said["effects"]).plan
    changes = [str(plan)] if plan.refused or plan.is_empty else [*plan.phrases()]
    return ReloadPlan(bool(plan.refused), "", problems, [], problems, changes)


async def _reload(call: WebCall) -> Done:
    return await _ask(call, "reload", call.asker, "")


async def _rollback(call: WebCall) -> Done:
    return await _ask(call, "rollback", str(call["generation"]), call.asker)


async def _ask(call: WebCall, verb: str, *arguments: str) -> Done:
    """The headline of the outcome; of a refusal, also the first line of its reason."""
    outcome: ReloadOutcome = await call.backend.ask_daemon(verb, *arguments, patience=_RELOAD)
    refused = outcome["result"] == "refused"
    return Done(": ".join(outcome["summary"].splitlines()[: 1 + refused]), not refused)


async def _difference(call: WebCall) -> Difference:
    return await asyncio.to_thread(_compare, call.backend, call["generation"])


def _compare(backend: Backend, generation: int) -> Difference:
    """Raises NotThere, ConfigError."""
    numbers = [entry.generation for entry in _entries(backend)]
    if generation not in numbers:
        raise NotThere(f"generation {generation} is not kept")
    directory, at = paths.history(backend.state), numbers.index(generation)
    after = _lines(history.config_of(directory, generation))
    before = _lines(history.config_of(directory, numbers[at - 1])) if at else []
    found = [line for line in difflib.unified_diff(before, after, lineterm="", n=2) if line[:3] not in ("---", "+++")]
    return Difference(generation, numbers[at - 1] if at else 0, found[:_MOST], len(found) > _MOST)


def _lines(config: Config) -> list[str]:
    """The effective configuration as lines; what may be a secret is not among them."""
    said = json.loads(config.to_json())
    for group in said["workers"].values():
        group["environment"] = dict.fromkeys(group["environment"], HIDDEN)
    return json.dumps(hidden_config(said), indent=1, sort_keys=True, ensure_ascii=False).splitlines()


async def _explain(call: WebCall) -> Origins:
    return await asyncio.to_thread(_explained, call.backend, call["kind"], call["name"])


def _explained(backend: Backend, kind: str, name: str) -> Origins:
    """By the file as it is now. Raises NotThere."""
    loaded = load(backend.source, environ=os.environ)
    if loaded.config is None or loaded.tree.root is None:
        raise NotThere("the file cannot be used now; the page of the configuration shows its problems after a reload")
    if name not in getattr(loaded.config, kind):
        raise NotThere(f"the file has no {kind}.{name}")
    values = _EXPLAINED[kind](loaded.tree.root, loaded.config, name)
    origins = [view_of(Origin, each, set_by=each.set_by or "") for each in values]
    differs = getattr(loaded.config, kind).get(name) != getattr(backend.config, kind).get(name)
    return Origins(kind, name, origins, differs)


_reads = partial(reads, right="configuration", everywhere=True)
_reloads = partial(acts, "reload", everywhere=True)
_OF_HISTORY = "/configuration/history/{generation}"
ENDPOINTS = (
    _reads("/configuration", _show, "What runs, and its history", Configuration, "configuration.html"),
    _reads("/configuration/plan", _plan, "What a reload would do now", ReloadPlan, "plan.html", (_LATER,)),
    _reads(
        _OF_HISTORY,
        _difference,
        "A generation against the one before it",
        Difference,
        "difference.html",
        (_GENERATION,),
    ),
    _reads(
        "/configuration/{kind}/{name}",
        _explain,
        "Where each value of an entry comes from",
        Origins,
        "explanation.html",
        _NAMED,
    ),
    _reloads("/configuration/reload", _reload, "Apply the file as it is now"),
    _reloads(f"{_OF_HISTORY}/rollback", _rollback, "Run an earlier generation", (_GENERATION,)),
)
