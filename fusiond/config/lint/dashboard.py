"""Who may use the dashboard: what a port believes of anybody."""

from collections.abc import Iterator

from fusiond.config.model import Config
from fusiond.config.problems import Problem
from fusiond.config.yaml.nodes import Node


def check(root: Node, config: Config) -> Iterator[Problem]:
    """Each key of `web` by which somebody gets more than was meant."""
    web = config.web
    if web is not None and web.user_header and not web.socket:
        message = f"each program that reaches {web.listen} can name itself any user by web.user_header"
        remedy = "write listen: unix:/run/fusiond/web.sock, and have the proxy connect to that"
        yield root.nearest("web", "user_header").warning("header-on-port", message, remedy)
