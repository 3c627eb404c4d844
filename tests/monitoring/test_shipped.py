"""The alert rules and the dashboard that are shipped: each metric in them exists, and rules fire when they should."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from fusiond.monitoring.exposition import NAMES

ROOT = Path(__file__).parents[2]
RULES, DASHBOARD = ROOT / "etc" / "monitoring" / "alerts.yml", ROOT / "etc" / "monitoring" / "grafana.json"
#: Prometheus' own checker
PROMTOOL = shutil.which("promtool")


def expressions():
    """Each PromQL text in both files."""
    rules = yaml.safe_load(RULES.read_text())["groups"]
    dashboard = json.loads(DASHBOARD.read_text())
    return [
        *(rule["expr"] for group in rules for rule in group["rules"]),
        *(target["expr"] for panel in dashboard["panels"] for target in panel["targets"]),
        *(each["query"]["query"] for each in dashboard["templating"]["list"] if each["type"] == "query"),
    ]


def test_each_metric_is_in_the_docs():
    """And the docs name no others."""
    page = (ROOT / "docs" / "monitoring.md").read_text()
    written = set(re.findall(r"`(fusiond_\w+)", page))
    assert written == {*NAMES}


#: alert → the series that make it fire, as promtool reads them, and its labels then
FIRES = {
    "FusiondDown": ({'fusiond_daemon_up{instance="a"}': "0x60"}, {"instance": "a"}),
    "FusiondAbsent": ({"other": "1x60"}, {}),
    "FusiondMetricsStale": (
        {'node_textfile_mtime_seconds{instance="a", file="/x/fusiond.prom"}': "0x60"},
        {"instance": "a", "file": "/x/fusiond.prom"},
    ),
    "FusiondNotReady": ({'fusiond_ready{instance="a"}': "0x60"}, {"instance": "a"}),
    "FusiondBrokerDown": ({'fusiond_broker_up{instance="a"}': "0x60"}, {"instance": "a"}),
    "FusiondNotTheFile": ({'fusiond_config_file_differs{instance="a"}': "1x400"}, {"instance": "a"}),
    "FusiondJobsUnserved": ({'fusiond_queue_unserved_jobs{queue="q"}': "1x60"}, {"queue": "q"}),
    "FusiondDrained": ({'fusiond_drained{instance="a"}': "1x400"}, {"instance": "a"}),
    "FusiondSuspended": ({'fusiond_queue_suspended{queue="q"}': "1x400"}, {"queue": "q"}),
    "FusiondBroken": ({'fusiond_queue_broken_total{queue="q"}': "0+1x60"}, {"queue": "q"}),
    "FusiondLeasesLost": (
        {'fusiond_job_outcomes_total{queue="q", task="t", outcome="rescued"}': "0+1x60"},
        {"queue": "q"},
    ),
    "FusiondProgramCrashLoop": ({'fusiond_program_deaths{program="main"}': "3x60"}, {"program": "main"}),
    "FusiondReloadRefused": ({"fusiond_config_last_reload_successful": "0x60"}, {}),
    "FusiondCronOverdue": (
        {f'fusiond_cron_overdue{{entry="nightly", instance="{host}"}}': "1x60" for host in "ab"},
        {"entry": "nightly"},
    ),
    "FusiondHostsDiffer": ({f'fusiond_config_daemons{{generation="1", hash="{text}"}}': "1x60" for text in "ab"}, {}),
    "FusiondSinkLate": ({'fusiond_sink_delay_seconds{sink="audit"}': "601x60"}, {"sink": "audit"}),
    "FusiondOutboxStuck": ({'fusiond_outbox_oldest_seconds{outbox="shop"}': "61x60"}, {"outbox": "shop"}),
    "FusiondOutboxRefuses": ({'fusiond_outbox_refused{outbox="shop"}': "1x60"}, {"outbox": "shop"}),
    "FusiondPoolFull": ({'fusiond_pool_oldest_wait_seconds{pool="openai"}': "601x60"}, {"pool": "openai"}),
    "FusiondJobsWait": ({'fusiond_queue_oldest_wait_seconds{queue="q"}': "601x60"}, {"queue": "q"}),
    "FusiondQueueSlow": (
        {
            f'fusiond_job_wait_seconds_bucket{{queue="q", task="t", le="{le}"}}': f"0+{jobs}x60"
            for le, jobs in (("60", 9), ("300", 10), ("+Inf", 10))
        },
        {"queue": "q"},
    ),
    "FusiondJobsFail": (
        {
            f'fusiond_job_outcomes_total{{queue="q", task="t", outcome="{outcome}", instance="{host}"}}': f"0+{jobs}x60"
            for outcome, jobs in (("failed", 6), ("finished", 100))
            for host in "ab"
        },
        {"queue": "q", "task": "t"},
    ),
    "FusiondJobsCrash": ({'fusiond_job_crashes_total{queue="q", task="t"}': "0+1x60"}, {"queue": "q", "task": "t"}),
}
#: series of a namespace with which nothing is wrong: none of these rules fires
QUIET = {
    'up{job="fusiond", instance="a"}': "1x60",
    'fusiond_daemon_up{job="fusiond", instance="a"}': "1x60",
    'fusiond_ready{instance="a"}': "1x60",
    'fusiond_broker_up{instance="a"}': "1x60",
    'fusiond_drained{instance="a"}': "0x60",
    'fusiond_queue_unserved_jobs{queue="q"}': "0x60",
    'fusiond_program_deaths{program="worker:main@1"}': "1x60",
    "fusiond_config_last_reload_successful": "1x60",
    'fusiond_cron_overdue{entry="nightly"}': "0x60",
    'fusiond_config_daemons{generation="3", hash="a"}': "5x60",
    'fusiond_queue_oldest_wait_seconds{queue="q"}': "599x60",
    'fusiond_sink_delay_seconds{sink="audit"}': "599x60",
    'fusiond_outbox_waiting{outbox="shop"}': "9x60",
    'fusiond_outbox_oldest_seconds{outbox="shop"}': "59x60",
    'fusiond_outbox_failing{outbox="shop"}': "0x60",
    'fusiond_outbox_refused{outbox="shop"}': "0x60",
    'fusiond_outbox_last_report_timestamp_seconds{outbox="shop"}': "0+60x60",
    'fusiond_pool_oldest_wait_seconds{pool="openai"}': "599x60",
    **{f'fusiond_job_wait_seconds_bucket{{queue="q", task="t", le="{le}"}}': "0+10x60" for le in ("60", "300", "+Inf")},
    'fusiond_job_outcomes_total{queue="q", task="t", outcome="failed"}': "0+4x60",
    'fusiond_job_outcomes_total{queue="q", task="t", outcome="finished"}': "0+100x60",
    'fusiond_job_crashes_total{queue="q", task="t"}': "5x60",
}


#: who answers for what, as each of two hosts tells it
OWNER = {"owner": "payments", "runbook_url": "https://wiki.example.com"}
_SAID = ", ".join(f'{name}="{value}"' for name, value in OWNER.items())
INFO = {
    f'fusiond_{kind}_info{{{of}, {_SAID}, instance="{host}"}}': "1x400"
    for kind, of in (("job", 'queue="q", task="t"'), ("queue", 'queue="q"'), ("cron", 'entry="nightly"'))
    for host in "ab"
}
#: alert → hours after which it fires, of those that take so long
SLOW = {"FusiondNotTheFile": 2, "FusiondDrained": 5, "FusiondSuspended": 26}
_HERE = 'job="fusiond", instance="a"'
UP, DAEMON, READY, REDIS, DRAINED = (
    f"{name}{{{_HERE}}}"
    for name in ("up", "fusiond_daemon_up", "fusiond_ready", "fusiond_broker_up", "fusiond_drained")
)
UNSERVED, DRAINED_QUEUE = (
    f'{name}{{{_HERE}, queue="q"}}' for name in ("fusiond_queue_unserved_jobs", "fusiond_drained_queue")
)
OUTBOX_FAILS, OUTBOX_SAID = (
    f'{name}{{{_HERE}, outbox="shop"}}'
    for name in ("fusiond_outbox_failing", "fusiond_outbox_last_report_timestamp_seconds")
)
#: what happens to a host → its series, and the alerts that fire half an hour later, and no others
SITUATIONS = {
    "the daemon is gone": ({UP: "1x5 0x60", DAEMON: "1x5 stale", READY: "1x5 stale"}, {"FusiondDown"}),
    "its target is gone, too": ({UP: "1x5 stale", DAEMON: "1x5 stale"}, {"FusiondAbsent"}),
    "Redis is gone": (
        {UP: "1x60", DAEMON: "1x60", REDIS: "1x5 0x60", READY: "1x5 0x60", UNSERVED: "0x5 stale"},
        {"FusiondBrokerDown", "FusiondNotReady"},
    ),
    "the host is drained, and jobs wait for it": (
        {
            UP: "1x60",
            DAEMON: "1x60",
            READY: "1x60",
            DRAINED: "0x5 1x60",
            UNSERVED: "0x5 7x60",
            DRAINED_QUEUE: "_x5 1x60",
        },
        set(),
    ),
    "the host is drained, and jobs wait that it would not run": (
        {
            UP: "1x60",
            DAEMON: "1x60",
            READY: "1x60",
            DRAINED: "0x5 1x60",
            UNSERVED: "0x5 7x60",
            DRAINED_QUEUE.replace('"q"', '"other"'): "_x5 1x60",
        },
        {"FusiondJobsUnserved"},
    ),
    "the database of an outbox is away": (
        {UP: "1x60", DAEMON: "1x60", OUTBOX_FAILS: "0x5 1x60"},
        {"FusiondOutboxStuck"},
    ),
    "no daemon serves an outbox any more": (
        {UP: "1x60", DAEMON: "1x60", OUTBOX_SAID: "0+60x5 300x60"},
        {"FusiondOutboxStuck"},
    ),
}


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not on PATH (Debian: apt install prometheus)")
def test_promtool_accepts_the_rules_and_they_fire_when_they_should(tmp_path):
    """Each after half an hour, or a day, of such series; none where nothing is wrong; and what such a host raises."""
    rules = {rule["alert"]: rule for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]}
    assert rules.keys() == FIRES.keys()

    def expected(alert, labels):
        rule = rules[alert]
        summary = re.sub(r"{{ .labels.(\w+) }}", lambda found: labels[found[1]], rule["annotations"]["summary"])
        labels |= OWNER if "group_left" in rule["expr"] else {}
        return {"exp_labels": labels | rule["labels"], "exp_annotations": {"summary": summary}}

    def case(series, firing, quiet=(), hours=0):
        """`firing`: alert → its labels."""
        told = {**dict.fromkeys(quiet, ()), **{alert: [expected(alert, labels)] for alert, labels in firing.items()}}
        minutes = 60 * hours or 30
        return {
            "interval": "4m" if hours else "1m",  # after 5 a series is taken for gone
            "input_series": [{"series": name, "values": values} for name, values in (series | INFO).items()],
            "alert_rule_test": [
                {"eval_time": f"{minutes}m", "alertname": alert, "exp_alerts": [*alerts]}
                for alert, alerts in told.items()
            ],
        }

    tests = [case(series, {alert: labels}, hours=SLOW.get(alert, 0)) for alert, (series, labels) in FIRES.items()]
    tests.append(case(QUIET, {}, FIRES))
    here = {"job": "fusiond", "instance": "a"}
    labels = {"FusiondAbsent": {}, "FusiondJobsUnserved": {"queue": "q"}, "FusiondOutboxStuck": {"outbox": "shop"}}
    for series, firing in SITUATIONS.values():
        tests.append(case(series, {alert: labels.get(alert, here) for alert in firing}, FIRES))
    file = tmp_path / "tests.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": tests}))
    for words in (("check", "rules", RULES), ("test", "rules", file)):
        done = subprocess.run([PROMTOOL, *map(str, words)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
