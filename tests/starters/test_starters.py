"""The templates of `fusiond init` name what exists: options, groups, queues, metrics, variables and paths."""

import re

import pytest
import yaml

from fusiond.cli import parser
from fusiond.config.lint import systemd_unit
from fusiond.config.load import load
from fusiond.config.units import seconds
from fusiond.job import JobStatus
from fusiond.monitoring.exposition import NAMES
from fusiond.starters import STARTERS

ENVIRONMENT = {"REDIS_URL": "redis://redis:6379/0"}
KUBERNETES = STARTERS["kubernetes"].texts()
DOCKER = STARTERS["docker"].texts()
#: what a file says of the machine that checks it, and not of itself
OF_THIS_MACHINE = ("runs-as-root", "missing-directory", "unsafe-file")


def documents(kind):
    """The manifests of one kind, by name."""
    found = [one for path, text in KUBERNETES.items() if path.endswith(".yaml") for one in yaml.safe_load_all(text)]
    return {one["metadata"]["name"]: one for one in found if one.get("kind") == kind}


def pod(deployment):
    return deployment["spec"]["template"]["spec"]


def file(texts):
    name = next(name for name in texts if name.endswith("fusion.yaml"))
    return load("fusion.yaml", environ=ENVIRONMENT, data=texts[name].encode())


def command_lines():
    """Each `fusiond …` of the Dockerfile, the compose file and the manifests."""
    for path, text in {**DOCKER, **KUBERNETES}.items():
        for match in re.finditer(r"\[(\"?fusiond\"?, [^\]]*)\]", text):
            yield pytest.param([word.strip(' "') for word in match[1].split(",")][1:], id=f"{path}:{match[1]}")


@pytest.mark.parametrize("way", STARTERS)
def test_each_file_is_valid_without_a_warning(way):
    """Whoever reads it."""
    problems = file(STARTERS[way].texts()).problems
    assert [str(problem) for problem in problems if problem.code not in OF_THIS_MACHINE] == []


@pytest.mark.parametrize("words", list(command_lines()))
def test_each_command_exists(words):
    """And each group that --only names is one of the file."""
    options = parser().parse_args(words)
    assert set(getattr(options, "only", None) or []) <= {*file(KUBERNETES).config.workers, "scheduler", "web"}


def test_systemd_gives_the_groups_their_time(tmp_path):
    """TimeoutStopSec of the unit is above each drain_timeout of the file."""
    unit = tmp_path / "fusiond.service"
    unit.write_text(STARTERS["systemd"].texts()["etc/systemd/system/fusiond.service"])
    loaded = file(STARTERS["systemd"].texts())
    assert list(systemd_unit.check(loaded.tree.root, loaded.config, unit, unit.name)) == []


def test_containers_give_the_groups_their_time():
    """The same rule for the compose file and the pods."""
    longest = max(group.drain_timeout for group in file(KUBERNETES).config.workers.values()) + 15
    service = yaml.safe_load(DOCKER["compose.yaml"])["services"]["fusiond"]
    assert seconds(service["stop_grace_period"]) > longest
    for deployment in documents("Deployment").values():
        assert pod(deployment)["terminationGracePeriodSeconds"] > longest


def test_each_group_has_pods_and_a_disruption_budget():
    """A Deployment by its name, whose labels the budget selects; one more for the schedules and the dashboard."""
    deployments, budgets = documents("Deployment"), documents("PodDisruptionBudget")
    wanted = {*file(KUBERNETES).config.workers, "scheduler"}
    assert {f"fusiond-{name}" for name in wanted} == set(deployments) == set(budgets)
    for name, deployment in deployments.items():
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert deployment["spec"]["selector"]["matchLabels"] == labels
        assert budgets[name]["spec"]["selector"]["matchLabels"] == labels
        (container,) = pod(deployment)["containers"]
        assert f"fusiond-{container['args'][container['args'].index('--only') + 1]}" == name
    assert documents("Service")["fusiond-web"]["spec"]["selector"]["app.kubernetes.io/component"] == "scheduler"
    resources = yaml.safe_load(KUBERNETES["kubernetes/kustomization.yaml"])["resources"]
    assert {f"kubernetes/{name}" for name in resources} <= set(KUBERNETES)


def test_keda_asks_for_metrics_that_exist():
    """Names, label names, statuses and queues; each object scales a Deployment."""
    queues = {"default", *file(KUBERNETES).config.queues}
    for scaled in documents("ScaledObject").values():
        assert scaled["spec"]["scaleTargetRef"]["name"] in documents("Deployment")
        for trigger in scaled["spec"]["triggers"]:
            metric, said = re.fullmatch(r"max\((\w+)\{(.*)\}\)", trigger["metadata"]["query"]).groups()
            labels = dict(part.strip().split("=") for part in said.split(","))
            assert metric in NAMES
            assert labels.pop("queue").strip('"') in queues
            assert {value.strip('"') for value in labels.values()} <= set(JobStatus)
            assert set(labels) <= {"status"}


def test_each_variable_secret_and_path_is_given():
    """What the file and the image need comes from the manifests and the steps."""
    token = file(KUBERNETES).config.web.token_file
    keys = set(re.findall(r"--from-literal=([\w-]+)=", STARTERS["kubernetes"].steps()))
    for deployment in documents("Deployment").values():
        (container,) = pod(deployment)["containers"]
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        variables = {one["name"]: one for one in container["env"]}
        assert set(ENVIRONMENT) <= set(variables)
        assert all(one["valueFrom"]["secretKeyRef"]["key"] in keys for one in variables.values() if "valueFrom" in one)
        assert set(mounts) == {volume["name"] for volume in pod(deployment)["volumes"]}
        assert f"FUSION_CONFIG={mounts['file']}/fusion.yaml" in KUBERNETES["Dockerfile"]
        for name in ("STATE_DIRECTORY", "RUNTIME_DIRECTORY"):
            assert variables[name]["value"].startswith(f"{mounts['scratch']}/")
        if "web" in container["args"]:
            assert token == f"{mounts['web-token']}/web-token"
    service = yaml.safe_load(DOCKER["compose.yaml"])["services"]["fusiond"]
    assert set(ENVIRONMENT) == set(service["environment"])
    assert token == f"/run/secrets/{service['secrets'][0]}"
    assert "./config:/etc/fusion:ro" in service["volumes"]
    assert "FUSION_CONFIG=/etc/fusion/fusion.yaml" in DOCKER["Dockerfile"]
