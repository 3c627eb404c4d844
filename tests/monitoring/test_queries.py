"""Each query of the dashboard and of the alert rules is PromQL, and asks for series with the labels that are served."""

import re

import promql_parser as promql
import pytest
from prometheus_client.parser import text_string_to_metric_families

from fusiond.broker.counters import Histogram, QueueCounters, Tally
from fusiond.broker.event_verbs import SinkState
from fusiond.broker.hosts.host_records import FileInForce
from fusiond.broker.outbox_verbs import OutboxState
from fusiond.broker.pool_verbs import PoolUse
from fusiond.broker.records import Counts
from fusiond.monitoring.broker_state import BrokerState
from fusiond.monitoring.exposition import NAMES, exposition
from tests.monitoring.test_shipped import expressions
from tests.support.status_documents import program_status, refused_reload, status_document

SCALED = {"range": [1, 4], "processes": 2, "changes": {}, "why": ""}
#: a program whose children follow their load, and a reload that was refused
DAEMON = status_document(
    program_status("worker:main@3", scaled=SCALED),
    ready=False,
    file_differs=True,
    drained_queues=["q"],
    reload=refused_reload(),
)
_TIMES = Histogram((1,) * 17, 3.0)
BROKER = BrokerState(
    queues={"q": Counts(*[1] * 9, 5000, True, False, None, 1, None, None, None)},
    unserved={"q": 1},
    overdue={"nightly": 7},
    files=[FileInForce("abc", 3, ("one",), {}), FileInForce("def", 4, ("two",), {})],
    counters={"q": QueueCounters({"t": Tally(finished=1, run=_TIMES, wait=_TIMES)}, {})},
    sinks={"audit": SinkState(5.0, "it is away")},
    pools={"licence": PoolUse(5, 5, 7.0, ("train",))},
    outboxes={"shop": OutboxState(waiting=3, refused=1, oldest=5.0, failing="it is away", host="h", at=7.0)},
)
#: of series that a Prometheus adds
ADDED = {"instance", "job"}


@pytest.fixture(scope="module")
def served():
    """Series → label → its values, of all that a daemon and its broker can say."""
    # what a scrape, and the node exporter, tell of a daemon that serves nothing
    found = {"up": {"job": {"fusiond"}}, "node_textfile_mtime_seconds": {"file": {"/x/fusiond.prom"}}}
    for family in text_string_to_metric_families(exposition(DAEMON, BROKER).body.decode()):
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for name, value in sample.labels.items():
                labels.setdefault(name, set()).add(value)
    return found


def as_promql(text):
    """What Grafana makes of its variables; of `label_values` the series and a sum by the label."""
    text = re.sub(r"^label_values\((.*), (\w+)\)$", r"sum by (\2) (\1)", text)
    return text.replace("$__rate_interval", "5m").replace("$queue", "q").replace("$task", "t")


def labels_of(expression, served):
    """The labels that each series of the result has; raises AssertionError for what is not served."""
    if isinstance(expression, promql.VectorSelector):
        assert expression.name in served, f"no series {expression.name}"
        labels = served[expression.name]
        for matcher in expression.matchers.matchers:
            assert matcher.name in labels.keys() | ADDED, f"{expression.name} has no label {matcher.name}"
            if matcher.op == promql.MatchOp.Equal:
                assert matcher.value in labels[matcher.name], f"{expression.name} has no {matcher.name} {matcher.value}"
            elif matcher.op == promql.MatchOp.Re:
                matching = [value for value in labels[matcher.name] if re.fullmatch(matcher.value, value)]
                assert matching, f"{expression.name} has no {matcher.name} like {matcher.value}"
                left = [word for word in matcher.value.split("|") if not re.search(r"\W", word)]
                left = [word for word in left if word not in labels[matcher.name]]
                assert left == [], f"{expression.name} has no {matcher.name} {left}"
        return labels.keys() | ADDED
    if isinstance(expression, promql.AggregateExpr):
        inside = labels_of(expression.expr, served)
        if expression.modifier is None:
            return set()
        named = set(expression.modifier.labels)
        assert named <= inside, f"{expression}: no label {named - inside}"
        return named if expression.modifier.type == promql.AggModifierType.By else inside - named
    if isinstance(expression, promql.Call):
        inside = [labels_of(each, served) for each in expression.args if not _is_number(each)]
        return inside[0] - ({"le"} if expression.func.name == "histogram_quantile" else set()) if inside else set()
    if isinstance(expression, promql.BinaryExpr):
        both = [labels_of(each, served) for each in (expression.lhs, expression.rhs) if not _is_number(each)]
        return both[0] if both else set()
    if isinstance(expression, promql.MatrixSelector):
        return labels_of(expression.vector_selector, served)
    assert isinstance(expression, promql.ParenExpr), type(expression)
    return labels_of(expression.expr, served)


def _is_number(expression):
    return isinstance(expression, promql.NumberLiteral | promql.StringLiteral)


def test_all_metrics_are_served_here(served):
    """Otherwise a query could not be checked."""
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in served}
    assert {name for name in NAMES if name not in families} == set()


@pytest.mark.parametrize("text", dict.fromkeys(expressions()))
def test_a_query_can_be_answered(text, served):
    """Each series, label and value in it is there, and nothing is summed by a label that is gone by then."""
    labels_of(promql.parse(as_promql(text)), served)
