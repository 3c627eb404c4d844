"""How values look on a page: times, durations, numbers, calls. Pure."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo

from markupsafe import Markup, escape

from fusiond.broker.counters import Bound
from fusiond.simulation.result_tables import tables
from fusiond.web.flow_graph import address, bar, by_time, graph


def number(value: float) -> str:
    """`1,234`; `12.3k` above 99,999."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:.4g}M"
    if abs(value) >= 1e5:
        return f"{value / 1e3:.4g}k"
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:.3g}"


def span(seconds: float | None) -> str:
    """`850 ms`, `12 s`, `3 min`, `2 h 5 min`, `4 d`."""
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 100:
        return f"{seconds:.3g} s"
    minutes, hours = seconds / 60, seconds / 3600
    if minutes < 100:
        return f"{minutes:.0f} min"
    return f"{int(hours)} h {int(minutes % 60)} min" if hours < 48 else f"{hours / 24:.0f} d"


def bound(time_taken: Bound) -> str:
    """`below 30 min`, `above 2 h 0 min`."""
    return f"{'above' if time_taken.above else 'below'} {span(time_taken.limit)}"


def when(ms: int | None, *, exact: bool = False) -> Markup:
    """How long ago, or in what time, with the moment in the title; `exact`: the moment. A script makes it local."""
    if not ms:
        return Markup("")
    if exact:
        return Markup('<time class="exact" datetime="{}Z">{} UTC</time>').format(
            moment(ms).replace(" ", "T"), moment(ms)
        )
    apart = time.time() - ms / 1000
    words = "now" if abs(apart) < 1 else f"{span(int(apart))} ago" if apart > 0 else f"in {span(int(-apart))}"
    given = moment(ms).replace(" ", "T"), moment(ms), words
    return Markup('<time datetime="{}Z" title="{} UTC">{}</time>').format(*given)


def moment(ms: int | None) -> str:
    """`2026-01-31 09:00:00`, UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S") if ms else ""


def size(number_of_bytes: float) -> str:
    """`12 MiB`."""
    value, units = float(number_of_bytes), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{value:.3g} {units[0]}"


def pretty(value: Any) -> str:
    """JSON for people."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def plural(count: int, noun: str, nouns: str = "") -> str:
    """`1 job`, `2 jobs`."""
    return f"{number(count)} {noun if count == 1 else nouns or noun + 's'}"


def spark(values: Sequence[float], label: str, width: int = 96, height: int = 20) -> Markup:
    """A line of the latest values as inline SVG; empty for less than two."""
    if len(values) < 2:
        return Markup("")
    most = max(*values, 1)
    step = width / (len(values) - 1)
    points = " ".join(
        f"{n * step:.1f},{height - 1 - value / most * (height - 2):.1f}" for n, value in enumerate(values)
    )
    return Markup(
        '<svg class="spark" role="img" viewBox="0 0 {} {}" width="{}" height="{}" aria-label="{}">'
        '<polyline points="{}" fill="none"/></svg>'
    ).format(width, height, width, height, label, points)


def chart(minutes: Sequence[Any], label: str, marks: Sequence[Any] = ()) -> Markup:
    """
    A bar for each minute or hour as inline SVG: what finished, and on it what failed, never too thin to be seen.

    `marks`: moments that are marked by a line, with what happened then.
    """
    most = max((each.finished + each.failed for each in minutes), default=0) or 1
    bars = Markup("").join(_bar(number, each, most) for number, each in enumerate(minutes))
    bars += Markup("").join(_mark(minutes, each) for each in marks) if len(minutes) > 1 else ""
    whole = Markup(
        '<svg class="chart" role="img" viewBox="0 0 {} 100" preserveAspectRatio="none" aria-label="{}">{}</svg>'
    )
    return whole.format(10 * len(minutes), label, bars)


def _mark(minutes: Sequence[Any], mark: Any) -> Markup:
    """A line across the chart."""
    at = 10 * (mark.at - minutes[0].at) / (minutes[1].at - minutes[0].at)
    said = f"{moment(mark.at)[5:16]} UTC: {mark.event}: {mark.message}"
    line = Markup('<g><title>{}</title><line class="mark" x1="{:.1f}" x2="{:.1f}" y1="0" y2="100"/></g>')
    return line.format(said, at, at)


def day(ticks: Sequence[int], begin: int, timezone: str) -> Markup:
    """The ticks of 24 h as marks on a line; empty where there are none."""
    marks = Markup("").join(_tick(tick, begin, timezone) for tick in ticks)
    whole = Markup(
        '<svg class="bar-of" role="img" viewBox="0 0 1004 10" preserveAspectRatio="none" aria-label="{}">{}</svg>'
    )
    return whole.format(plural(len(ticks), "tick") + " in 24 h", marks) if marks else marks


def _tick(tick: int, begin: int, timezone: str) -> Markup:
    there = datetime.fromtimestamp(tick / 1000, ZoneInfo(timezone or "UTC"))
    mark = Markup('<rect x="{:.2f}" y="0" width="4" height="10"><title>{} UTC{}</title></rect>')
    return mark.format((tick - begin) / 86_400, moment(tick), f", {there:%a %H:%M:%S} {timezone}" if timezone else "")


def _bar(number: int, minute: Any, most: int) -> Markup:
    """The bars of one minute, or hour: 10 wide, of 92 at most."""
    good, bad = (92 * part / most for part in (minute.finished, minute.failed))
    bad, good = (max(bad, 3) if minute.failed else 0), max(good, 1) if minute.finished else 0
    rect = Markup('<rect class="{}" x="{}" y="{:.1f}" width="8" height="{:.1f}"/>')
    bars = [rect.format("done", 10 * number + 1, 100 - good, good)] if good else []
    bars += [rect.format("failed", 10 * number + 1, 100 - good - bad, bad)] if bad else []
    said = f"{moment(minute.at)[5:16]} UTC: {minute.finished:,} finished, {minute.failed:,} failed"
    bar = Markup('<g data-at="{}"><title>{}</title>{}</g>')
    return bar.format(minute.at, said, Markup("").join(bars)) if bars else Markup("")


def printed(text: str) -> str:
    """What a job has printed, without the sequences that would steer a terminal."""
    return re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)?", "", text)


def linked(path: str, **values: Any) -> str:
    """An address with a query of those values that are set."""
    query = urlencode({name: value for name, value in values.items() if value not in (None, "")})
    return quote(path, safe="/:@") + (f"?{query}" if query else "")


def more(path: str, said: Mapping[str, str], **values: Any) -> str:
    """The address of the same page with other values of some inputs."""
    return linked(path, **{name: value for name, value in said.items() if name != "done"} | values)


def marked(text: str, found: str) -> Markup:
    """The text, with what was searched for marked."""
    if not found or found.lower() not in text.lower():
        return escape(text)
    at = text.lower().index(found.lower())
    head, body, tail = text[:at], text[at : at + len(found)], text[at + len(found) :]
    return Markup("{}<mark>{}</mark>{}").format(head, body, tail)


def underlined(line: Any) -> Markup:
    """A line of a file, with what its first problem is about marked; what is hidden in it may have moved that."""
    problem = next((each for each in line.problems if each.excerpt == line.text), None)
    if problem is None:
        return escape(line.text)
    start, end = problem.column - 1, problem.column - 1 + problem.width
    return Markup("{}<mark>{}</mark>{}").format(line.text[:start], line.text[start:end], line.text[end:])


FILTERS: dict[str, Callable[..., Any]] = {
    "number": number,
    "span": span,
    "bound": bound,
    "when": when,
    "moment": moment,
    "size": size,
    "pretty": pretty,
    "plural": plural,
    "spark": spark,
    "chart": chart,
    "day": day,
    "graph": graph,
    "bar": bar,
    "by_time": by_time,
    "step_address": address,
    "linked": linked,
    "printed": printed,
    "more": more,
    "marked": marked,
    "underlined": underlined,
    "tables": tables,
}
