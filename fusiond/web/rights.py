"""Who asks, and what that user may do: rights of the roles that the file gives, each in some queues. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final, get_args

from fusiond.config.fields import form_of
from fusiond.config.model.web_face import Right, Role
from fusiond.web.responses import Refusal

#: each right but `all`
RIGHTS: Final = tuple(word for word in get_args(form_of(Right).type) if word != "all")
#: the pattern of all queues
_ALL: Final = "*"
#: right → patterns of the queues in which it holds
Grants = Mapping[str, frozenset[str]]
EVERYTHING: Final[Grants] = dict.fromkeys(RIGHTS, frozenset({_ALL}))


def granted(roles: Iterable[Role]) -> Grants:
    """What these roles give together."""
    found: dict[str, frozenset[str]] = {}
    for role in roles:
        for right in RIGHTS if "all" in role.may else role.may:
            found[right] = found.get(right, frozenset()) | {*role.queues}
    return found


@dataclass(frozen=True, slots=True)
class User:
    """Who asks."""

    name: str
    #: from where: an address, or `uid N`
    address: str
    #: by the token itself and not by a cookie or a proxy: a page of another site cannot make a browser send it
    by_token: bool = False
    #: names of the roles; none where the file has no roles
    roles: tuple[str, ...] = ()
    grants: Grants = field(default_factory=lambda: EVERYTHING)

    def __str__(self) -> str:
        """For the log and the history: `ada (support) from 10.0.0.5`."""
        roles = f" ({', '.join(self.roles)})" if self.roles else ""
        return f"{self.name}{roles} from {self.address}"

    def may(self, right: str, queue: str | None = None) -> bool:
        """Whether the user has the right in this queue; None: in any."""
        patterns = self.grants.get(right, frozenset())
        return bool(patterns) if queue is None else is_among(queue, patterns)

    def may_everywhere(self, right: str) -> bool:
        """Whether the user has the right in all queues."""
        return _ALL in self.grants.get(right, ())

    def sees_arguments(self, right: str, queue: str | None) -> bool:
        """Whether of each job that this right shows or changes; `queue`: only of this one."""
        if queue is not None:
            return self.may("read_arguments", queue)
        return self.may_everywhere("read_arguments") or self.grants[right] <= self.grants.get("read_arguments", set())

    def require(self, right: str, queue: str | None = None, *, everywhere: bool = False) -> None:
        """Raises Refusal if the user does not have the right; `everywhere`: in all queues."""
        if self.may_everywhere(right) if everywhere else self.may(right, queue):
            return
        where = " for all queues" if everywhere and self.may(right) else f" in queue {queue}" if queue else ""
        who = f"your role {self.roles[0]} does" if len(self.roles) == 1 else f"your roles {', '.join(self.roles)} do"
        why = f"which {who} not have" if self.roles else "and none of your groups has a role in this file"
        raise Refusal(403, f"this needs the right `{right}`{where}, {why}")


def is_among(queue: str, patterns: Iterable[str]) -> bool:
    """Whether a queue fits one of these patterns."""
    return any(fnmatchcase(queue, pattern) for pattern in patterns)
