"""The alert rules and the dashboard that are shipped: each metric in them exists, and rules fire when they should."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from fusiond.monitoring.exposition import HISTOGRAMS, NAMES

ROOT = Path(__file__).parents[2]
RULES, DASHBOARD = ROOT / "etc" / "monitoring" / "alerts.yml", ROOT / "etc" / "monitoring" / "grafana.json"
#: Prometheus' own checker
PROMTOOL = shutil.which("promtool")
#: what the daemon serves; of a histogram its three series
SERVED = {*NAMES} - {*HISTOGRAMS} | {f"{name}_{part}" for name in HISTOGRAMS for part in ("bucket", "sum", "count")}
LABELS = re.compile(r"[{,]\s*(\w+)\s*(?:=~|!=|=)|by \(([^)]*)\)|without \(([^)]*)\)|label_values\(.*, (\w+)\)")
KNOWN_LABELS = {
    "queue", "task", "outcome", "status", "le", "entry", "program", "generation", "hash", "reason", "instance", "sink",
}  # fmt: skip


def expressions():
    """Each PromQL text in both files."""
    rules = yaml.safe_load(RULES.read_text())["groups"]
    dashboard = json.loads(DASHBOARD.read_text())
    return [
        *(rule["expr"] for group in rules for rule in group["rules"]),
        *(target["expr"] for panel in dashboard["panels"] for target in panel["targets"]),
        *(each["query"]["query"] for each in dashboard["templating"]["list"] if each["type"] == "query"),
    ]


def test_each_metric_and_label_that_they_name_is_served():
    found = {name for text in expressions() for name in re.findall(r"\bfusiond_\w+", text)}
    assert found - SERVED == set()
    groups = [each for text in expressions() for found in LABELS.findall(text) for each in found if each]
    assert {label for group in groups for label in group.split(", ")} - KNOWN_LABELS == set()


def test_each_metric_is_in_the_docs():
    """And the docs name no others."""
    page = (ROOT / "docs" / "monitoring.md").read_text()
    written = set(re.findall(r"`(fusiond_\w+)", page))
    assert written == {*NAMES}


#: alert → the series that make it fire, as promtool reads them, and its labels then
FIRES = {
    "FusiondProgramCrashLoop": ({'fusiond_program_deaths{program="main"}': "3x60"}, {"program": "main"}),
    "FusiondReloadRefused": ({"fusiond_config_last_reload_successful": "0x60"}, {}),
    "FusiondCronOverdue": (
        {f'fusiond_cron_overdue{{entry="nightly", instance="{host}"}}': "1x60" for host in "ab"},
        {"entry": "nightly"},
    ),
    "FusiondHostsDiffer": ({f'fusiond_config_daemons{{generation="1", hash="{text}"}}': "1x60" for text in "ab"}, {}),
    "FusiondSinkLate": ({'fusiond_sink_delay_seconds{sink="audit"}': "601x60"}, {"sink": "audit"}),
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
    'fusiond_program_deaths{program="worker:main@1"}': "1x60",
    "fusiond_config_last_reload_successful": "1x60",
    'fusiond_cron_overdue{entry="nightly"}': "0x60",
    'fusiond_config_daemons{generation="3", hash="a"}': "5x60",
    'fusiond_queue_oldest_wait_seconds{queue="q"}': "599x60",
    'fusiond_sink_delay_seconds{sink="audit"}': "599x60",
    **{f'fusiond_job_wait_seconds_bucket{{queue="q", task="t", le="{le}"}}': "0+10x60" for le in ("60", "300", "+Inf")},
    'fusiond_job_outcomes_total{queue="q", task="t", outcome="failed"}': "0+4x60",
    'fusiond_job_outcomes_total{queue="q", task="t", outcome="finished"}': "0+100x60",
    'fusiond_job_crashes_total{queue="q", task="t"}': "5x60",
}


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not on PATH (Debian: apt install prometheus)")
def test_promtool_accepts_the_rules_and_they_fire_when_they_should(tmp_path):
    """After half an hour of such series; and none of them where nothing is wrong."""
    rules = {rule["alert"]: rule for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]}

    def case(series, alert, labels):
        rule = rules[alert]
        expected = []
        if labels is not None:
            summary = re.sub(r"{{ .labels.(\w+) }}", lambda found: labels[found[1]], rule["annotations"]["summary"])
            expected = [{"exp_labels": labels | rule["labels"], "exp_annotations": {"summary": summary}}]
        return {
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "alert_rule_test": [{"eval_time": "30m", "alertname": alert, "exp_alerts": expected}],
        }

    tests = [case(series, alert, labels) for alert, (series, labels) in FIRES.items()]
    tests += [case(QUIET, alert, None) for alert in FIRES]
    file = tmp_path / "tests.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": tests}))
    for words in (("check", "rules", RULES), ("test", "rules", file)):
        done = subprocess.run([PROMTOOL, *map(str, words)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
