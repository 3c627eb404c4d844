"""A daemon as it runs in a pod: its file is in a ConfigMap, which the kubelet swaps."""

import shutil

import pytest

from fusiond.starters import STARTERS
from tests.support.fusiond_command import fusiond
from tests.support.running import Running, until


class ConfigMap:
    """A volume as the kubelet writes it: `fusion.yaml -> ..data/fusion.yaml`, `..data -> ..<time>`."""

    def __init__(self, directory):
        self.directory = directory
        self.number = 0

    def write(self, text):
        """The kubelet's steps: a new directory, a link to it renamed over `..data`, the old directory removed."""
        self.number += 1
        fresh = self.directory / f"..2026_11_23_10_00_{self.number:02}.123456789"
        fresh.mkdir()
        (fresh / "fusion.yaml").write_text(text)
        (fresh / "fusion.yaml").chmod(0o440)
        old = (self.directory / "..data").resolve() if self.number > 1 else None
        (self.directory / "..data_tmp").symlink_to(fresh.name)
        (self.directory / "..data_tmp").rename(self.directory / "..data")
        if old:
            shutil.rmtree(old)
        else:
            (self.directory / "fusion.yaml").symlink_to("..data/fusion.yaml")


@pytest.fixture
def pod():
    """A daemon of the group `main`, not started yet."""
    running = Running()
    yield running
    running.close()


def test_a_swapped_config_map_reloads_a_pod(pod, redis_server):
    """The starter's own file and arguments: the pod gets ready, follows two changes, and keeps what it runs if the
    file that comes has a mistake.
    """
    texts = STARTERS["kubernetes"].texts()
    (pod.app / "hello.py").write_text(texts["hello.py"])
    volume = pod.directory / "etc"
    volume.mkdir()
    pod.file = volume / "fusion.yaml"
    config_map = ConfigMap(volume)
    text = texts["kubernetes/fusion.yaml"].replace("/srv/app", str(pod.app))
    config_map.write(text)
    environment = {
        "REDIS_URL": redis_server.url,
        "STATE_DIRECTORY": str(pod.state),
        "RUNTIME_DIRECTORY": str(pod.runtime),
    }
    pod.start(None, "--only", "main", environment=environment)
    assert fusiond("health", "--live", "-c", pod.file, cwd=pod.app, **environment).status == 0, pod.text()
    # A program whose check takes longer than a second is not ready for a moment.
    until(lambda: fusiond("health", "--ready", "-c", pod.file, cwd=pod.app, **environment).status == 0, pod.text)
    assert {"worker:main@1"} == {name for name in pod.names() if name.startswith("worker:")}

    config_map.write(text.replace("processes: 2", "processes: 3"))
    until(lambda: pod.status()["generation"] == 2, pod.text)
    config_map.write(text.replace("processes: 2", "proceses: 3"))
    until(lambda: pod.status()["reloads"].get("refused"), pod.text)
    config_map.write(text.replace("processes: 2", "processes: 4"))
    until(lambda: pod.status()["generation"] == 3, pod.text)
    done = fusiond("enqueue", "hello", "Ada", "--wait", "-c", pod.file, cwd=pod.app, **environment)
    assert (done.status, done.json) == (0, {"greeted": "Ada"}), done.err + pod.text()
