"""
What `fusiond init` writes for each way of running: files, and what to do next.

The files are templates beside this module, and the systemd units as they ship. In each, `@VERSION@` is the version of
fusiond, and `/opt/fusiond/bin/fusiond` becomes the program of this installation.
"""

import sysconfig
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from fusiond import __version__
from fusiond.installed import shipped

#: the program in the units as they ship
_PROGRAM: Final = "/opt/fusiond/bin/fusiond"
_IMAGE: Final = {
    "Dockerfile": "image/Dockerfile",
    ".dockerignore": "image/dockerignore",
    "hello.py": "first/hello.py",
    "wheels/README.txt": "image/wheels.txt",
}


@dataclass(frozen=True, slots=True)
class Starter:
    """One way of running."""

    #: path below the directory → template, or shipped file
    templates: dict[str, str]
    #: the command lines to run next in that directory, as a template, too
    commands: str

    def texts(self) -> dict[str, str]:
        """Path below the directory → what is written there."""
        return {path: _filled(_template(name)) for path, name in self.templates.items()}

    def steps(self) -> str:
        """What to do next, as command lines with comments."""
        return _filled(self.commands)


def _template(name: str) -> str:
    own = files(__name__).joinpath(*name.split("/"))
    return (own if own.is_file() else shipped(name)).read_text(encoding="utf-8")


def _filled(text: str) -> str:
    program = Path(sysconfig.get_path("scripts")) / "fusiond"
    return text.replace("@VERSION@", __version__).replace(_PROGRAM, str(program) if program.exists() else _PROGRAM)


STARTERS: Final = {
    "first": Starter(
        {name: f"first/{name}" for name in ("fusion.yaml", "fusion.tests.yml", "hello.py")},
        """\
fusiond run                        # the daemon, in the foreground
fusiond enqueue hello Ada --wait   # in another terminal, in the same directory: one job and its result
fusiond test                       # whether what fusion.tests.yml promises of the file holds
""",
    ),
    "systemd": Starter(
        {
            "etc/fusion.yaml": "systemd/fusion.yaml",
            "etc/systemd/system/fusiond.service": "systemd/fusiond.service",
            "etc/systemd/system/fusiond@.service": "systemd/fusiond@.service",
            "etc/sysusers.d/fusiond.conf": "systemd/fusiond.sysusers",
            "etc/tmpfiles.d/fusiond.conf": "systemd/fusiond.tmpfiles",
        },
        """\
cp -r --no-clobber etc /           # as root, unless this directory is /
systemd-sysusers
systemd-tmpfiles --create
systemctl daemon-reload
/opt/fusiond/bin/fusiond validate /etc/fusion.yaml
systemctl enable --now fusiond
sudo -u fusiond /opt/fusiond/bin/fusiond enqueue -c /etc/fusion.yaml hello Ada --wait
""",
    ),
    "docker": Starter(
        {**_IMAGE, "compose.yaml": "compose/compose.yaml", "config/fusion.yaml": "image/fusion.yaml"},
        """\
pip wheel --no-deps --wheel-dir wheels git+URL         # only until it is on PyPI; URL: its repository
head -c 32 /dev/urandom | base64 > web-token           # the token that logs in to the dashboard
docker compose up --build --detach
docker compose exec fusiond fusiond enqueue hello Ada --wait
""",
    ),
    "kubernetes": Starter(
        {
            **_IMAGE,
            "kubernetes/fusion.yaml": "image/fusion.yaml",
            **{
                f"kubernetes/{name}.yaml": f"kubernetes/{name}.yaml"
                for name in ("kustomization", "scheduler", "main", "slow", "keda")
            },
        },
        """\
pip wheel --no-deps --wheel-dir wheels git+URL         # only until it is on PyPI; URL: its repository
docker build --tag registry.example.com/app:1 . && docker push registry.example.com/app:1
kubectl create secret generic fusiond --from-literal=redis-url=redis://redis:6379/0 \\
    --from-literal=web-token="$(head -c 32 /dev/urandom | base64)"
kubectl apply --kustomize kubernetes
kubectl exec deploy/fusiond-main -- fusiond enqueue hello Ada --wait
""",
    ),
}
