"""`fusiond flow`: start runs of flows, see how they stand, and steer them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import arguments
from fusiond.cli.enqueue import words
from fusiond.cli.exits import OK, REFUSED, UsageError
from fusiond.cli.find import broker, entry
from fusiond.cli.terminal.colours import paint, paint_state
from fusiond.cli.terminal.table import fields, table
from fusiond.cli.terminal.text import clock, json_text, one_line, span, tell, when

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fusiond.flows.run_control import RunControl, RunRef, RunView
    from fusiond.inspecting.flow_times import StepItem, StepTimes

#: characters of a reason that `show` prints
_REASON: Final = 200
#: runs among which the last one of a flow is looked for
_MOST_RUNS: Final = 200
#: what stands before a step, by its status
_MARKS: Final = {"finished": "●", "running": "◐", "waiting": "○", "failed": "✗", "canceled": "✗", "skipped": "–"}


def register(subparsers: Any) -> None:
    """Add `flow run`, `list`, `show`, `suspend`, `resume`, `cancel` and `requeue`."""
    commands = arguments.commands_below(
        subparsers, "flow", "[broker] Runs of flows: run, list, show, suspend, resume, cancel, requeue."
    )
    run = arguments.command(commands, "run", _run)
    run.add_argument("flow", metavar="FLOW", help="a flow of the file")
    run.add_argument("words", nargs="*", metavar="NAME=VALUE | NAME:=JSON", help="inputs; VALUE is a string")
    run.add_argument(
        "--wait", type=arguments.job_timeout, metavar="SECONDS", help="wait for its end, and print its result"
    )
    listing = arguments.command(commands, "list", _list)
    listing.add_argument("--queue", metavar="Q", action="append", help="may be repeated; default: all")
    listing.add_argument("--limit", type=arguments.positive_number, default=50, metavar="N", help="default: 50")
    show = arguments.command(commands, "show", _show)
    steering = [
        arguments.command(commands, name, handler)
        for name, handler in (("suspend", _suspend), ("resume", _resume), ("cancel", _cancel), ("requeue", _requeue))
    ]
    show.add_argument("run", metavar="RUN", help="queue/id, or the id alone")
    show.add_argument("--step", metavar="STEP", help="show the jobs of this step, those that failed first")
    show.add_argument(
        "--limit", type=arguments.positive_number, default=50, metavar="N", help="jobs of the step; default: 50"
    )
    for each in steering:
        each.add_argument("runs", nargs="+", metavar="RUN", help="queue/id, or the id alone")
    for each in (run, listing, show, *steering):
        arguments.add_broker(each)


def _run(options: arguments.Options) -> None:
    """[broker] Start a run of a flow."""
    from fusiond.producer.flow_calls import FlowStarter
    from fusiond.producer.store import Store

    positional, inputs = words.split(options.words)
    if positional:
        raise UsageError(f"{positional[0]!r}: the inputs of a flow have names; write NAME={positional[0]}")
    with broker.session(options) as session:
        starter = FlowStarter(session.verbs, Store(session.verbs, "memory"))
        ref = session.run(starter.run_flow(options.flow, inputs))
        if options.wait is None:
            document = {"run": ref.name, "queue": ref.queue, "id": ref.id}
            arguments.answer(options, document, lambda: ref.name)
        else:
            print(json_text(session.run(starter.control.result(ref, options.wait))))


def _list(options: arguments.Options) -> None:
    """[broker] List the runs of flows: those that go on, then those that ended last."""
    with broker.session(options) as session:
        queues = session.queues(*options.queue or ())
        found = session.run(_control(session).runs(queues, options.limit))
        secret = session.secret()
    now = time.time() * 1000
    found = [view.masked(secret) for view in found[: options.limit]]
    rows = (
        (
            *(view.ref.name, view.flow, view.status, f"{view.steps_done}/{len(view.run.state.steps)}"),
            *(when(moment or None, now) for moment in (view.created_at, view.ended_at)),
        )
        for view in found
    )
    headings = ("RUN", "FLOW", "STATUS", "STEPS", "STARTED", "ENDED")
    arguments.answer(options, [_document(view) for view in found], lambda: table(headings, rows))


def _show(options: arguments.Options) -> None:
    """[broker] Show a run: its graph, with the state and the times of each step."""
    from fusiond.inspecting.flow_times import step_items, step_times

    with broker.session(options) as session:
        view = session.run(_control(session).view(_find(session, options.run))).masked(session.secret())
        if options.step:
            entry("step", view.run.state.steps, options.step)
            _tell_items(options, session.run(step_items(session.verbs, view, options.step, 0, options.limit)))
            return
        times = session.run(step_times(session.verbs, view))
    arguments.answer(options, _document(view, times), lambda: _shown(view, times))


def _tell_items(options: arguments.Options, items: list[StepItem]) -> None:
    rows = (
        (item.name, item.status, clock(item.began_at), "" if item.ms is None else span(item.ms / 1000), item.why)
        for item in items
    )
    document = [item._asdict() for item in items]
    arguments.answer(options, document, lambda: table(("JOB", "STATUS", "BEGUN", "TOOK", "WHY"), rows))


def _suspend(options: arguments.Options) -> int:
    """[broker] Have no further step of these runs begin; what runs goes on."""
    return _steer(options, lambda control, ref, who: control.suspend(ref, on=True, who=who))


def _resume(options: arguments.Options) -> int:
    """[broker] Undo suspend."""
    return _steer(options, lambda control, ref, who: control.suspend(ref, on=False, who=who))


def _cancel(options: arguments.Options) -> int:
    """[broker] Cancel the jobs of these runs that wait or run; nothing more begins."""
    return _steer(options, lambda control, ref, who: control.cancel(ref, who=who), "has ended already")


def _requeue(options: arguments.Options) -> int:
    """[broker] Run the steps again that failed or were canceled, and those that were skipped for it."""
    return _steer(options, lambda control, ref, who: control.requeue(ref, who=who), "neither failed nor was canceled")


def _steer(options: arguments.Options, plan: Any, refused: str = "") -> int:
    """Change each of the runs, and print how it stands then."""
    document, lines = [], []
    with broker.session(options) as session:
        control = _control(session)
        for name in options.runs:
            ref = _find(session, name)
            done = bool(session.run(plan(control, ref, session.who)))
            status = session.run(control.view(ref)).status
            document.append({"run": ref.name, "done": done, "status": status})
            lines.append(f"{ref.name}: {status if done else refused}")
    arguments.answer(options, document, lambda: "\n".join(lines))
    return OK if all(each["done"] for each in document) else REFUSED


def _control(session: broker.Session) -> RunControl:
    from fusiond.flows.run_control import RunControl

    return RunControl(session.verbs)


def _find(session: broker.Session, name: str) -> RunRef:
    """The run of this full name, or of this id in any queue, or the last one of this flow. Raises JobNotFound."""
    from fusiond.flows.run_control import RunRef, no_such_run

    if "/" in name:
        return RunRef.named(name)
    queues = session.queues()
    records = session.run_all([session.verbs.run_record(queue, name) for queue in queues])
    found = [queue for queue, record in zip(queues, records, strict=True) if record is not None]
    if not found and name in session.run(session.verbs.catalogue()).flows:
        runs = session.run(_control(session).runs(queues, _MOST_RUNS))
        if last := max((view for view in runs if view.flow == name), key=lambda view: view.created_at, default=None):
            tell(f"note: this is the last run of flow {name!r}; fusiond flow list shows the others")
            return last.ref
    if not found:
        raise no_such_run(name)
    return RunRef(found[0], name)


def _document(view: RunView, times: Mapping[str, StepTimes] | None = None) -> dict[str, Any]:
    run = view.run
    return {
        "run": view.ref.name,
        "flow": view.flow,
        "status": view.status,
        "inputs": view.inputs,
        "created_at": view.created_at,
        "ended_at": view.ended_at or None,
        "step_of": view.parent or None,
        "steps": {
            name: {
                "status": step.status,
                "task": run.flow.steps[name].task or None,
                "flow": run.flow.steps[name].flow or None,
                "after": run.flow.steps[name].after,
                "jobs": step.total,
                **view.ends(name)._asdict(),
                "reason": view.reason(name) or None,
                **(times[name]._asdict() if times and name in times else {}),
            }
            for name, step in run.state.steps.items()
        },
    }


def _shown(view: RunView, times: Mapping[str, StepTimes]) -> str:
    now = time.time() * 1000
    step_of = view.run.record.step_of
    head = fields(
        [
            ("run", view.ref.name),
            ("flow", view.flow),
            ("status", view.status),
            ("inputs", json_text(view.inputs) if view.inputs else ""),
            ("step of", step_of and f"{view.parent}, {step_of.step}"),
            ("started", when(view.created_at, now)),
            ("ended", when(view.ended_at or None, now)),
            ("failed", "\n".join(f"{name}: {one_line(why, _REASON)}" for name, why in view.reasons.items())),
        ]
    )
    return "\n".join([head, "", *_graph(view, times)])


def _graph(view: RunView, times: Mapping[str, StepTimes]) -> Iterator[str]:
    """A tree: each step below that of the steps before it which is the last to begin; its other ones are named."""
    from fusiond.flows.shapes import depths

    steps = view.run.flow.steps
    above = {name: max(step.after, key=depths(steps).__getitem__, default=None) for name, step in steps.items()}

    def branch(parent: str | None, indent: str) -> Iterator[tuple[str, str]]:
        names = [name for name in steps if above[name] == parent]
        for name in names:
            is_last = name == names[-1]
            stem = "" if parent is None else "└─ " if is_last else "├─ "
            yield name, indent + stem
            yield from branch(name, indent if parent is None else indent + ("   " if is_last else "│  "))

    rows = [*branch(None, "")]
    width = max(len(stem) + len(name) for name, stem in rows) + 2
    for name, stem in rows:
        yield _line(view, name, stem, above[name], width, times)


def _line(  # noqa: PLR0917 - the parts of a line
    view: RunView, name: str, stem: str, above: str | None, width: int, times: Mapping[str, StepTimes]
) -> str:
    from fusiond.inspecting.flow_times import StepTimes  # here: `--help` needs no dataclasses

    shape, step, took = view.run.flow.steps[name], view.run.state.steps[name], times.get(name, StepTimes())
    others = [other for other in shape.after if other != above]
    ends, word = view.ends(name), step.status
    jobs = ""
    if shape.for_each and step.total:
        jobs = f"{ends.finished}/{step.total}" + (f", {ends.failed} failed" if ends.failed else "")
        jobs += f", the slowest {span(took.slowest_ms / 1000)}: {took.slowest}" if took.slowest_ms is not None else ""
    notes = [
        f"{clock(took.began_at):12}",
        f"{clock(took.ended_at):12}",
        f"{'' if (ms := took.ms(time.time() * 1000)) is None else span(ms / 1000):>7}",
        f"flow {shape.flow}" if shape.flow else shape.task,
        jobs,
        f"also after {', '.join(others)}" if others else "",
        "" if shape.when == "finished" else f"when: {shape.when}",
        one_line(view.reason(name), _REASON),
    ]
    painted = paint_state(word) + " " * (10 - len(word))
    label = f"{stem}{_MARKS[word]} {name}"
    return (
        f"{label}{' ' * (width + 2 - len(label))}{painted}{paint('  ', 'dim')}{'  '.join(filter(None, notes))}".rstrip()
    )
