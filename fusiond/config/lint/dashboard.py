"""Who may use the dashboard: what a port believes of anybody, and roles that nobody has, or that are not declared."""

from collections.abc import Iterator

from fusiond.config.lint.suggest import did_you_mean
from fusiond.config.model import Config
from fusiond.config.model.web_face import OF_THE_WHOLE, Web
from fusiond.config.problems import Problem
from fusiond.config.yaml.nodes import Node


def check(root: Node, config: Config) -> Iterator[Problem]:
    """Each key of `web` by which somebody gets more than was meant, or less."""
    web = config.web
    if web is None:
        return
    if web.user_header and not web.socket:
        message = f"each program that reaches {web.listen} can name itself any user by web.user_header"
        remedy = "write listen: unix:/run/fusiond/web.sock, and have the proxy connect to that"
        yield root.nearest("web", "user_header").warning("header-on-port", message, remedy)
    if web.group_header and not web.user_header:
        message, remedy = "web.group_header counts only with user_header", "add user_header: X-Forwarded-User"
        yield root.nearest("web", "group_header").warning("groups-without-user", message, remedy)
    for name, token in web.tokens.items():
        if token.role not in web.roles:
            message = f"web.tokens.{name}: there is no role {token.role!r}"
            remedy = did_you_mean(token.role, web.roles) or f"add {token.role} to web.roles"
            yield root.nearest("web", "tokens", name, "role").error("unknown-role", message, remedy)
    yield from _roles(root, web)


def _roles(root: Node, web: Web) -> Iterator[Problem]:
    of_tokens = {token.role for token in web.tokens.values()}
    by_groups = bool(web.user_header and web.group_header)
    for name, role in web.roles.items():
        if name not in of_tokens and not (by_groups and role.groups):
            lacks = "its groups count only with user_header and group_header" if role.groups else "it has no groups"
            message = f"nobody has the role {name}: {lacks}, and no token has it"
            remedy = "add what is missing, or an entry to web.tokens"
            yield root.names("web", "roles")[name].warning("role-of-nobody", message, remedy)
        if "*" not in role.queues and (lost := sorted(OF_THE_WHOLE & {*role.may})):
            message = f"web.roles.{name}: {', '.join(lost)} cannot be limited to queues, so the role does not give it"
            remedy = "remove the right, or give it by a role without queues"
            yield root.nearest("web", "roles", name, "queues").warning("right-without-queues", message, remedy)
