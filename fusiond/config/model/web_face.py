"""The `web` program: where it listens, and who may use it, and do what."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from fusiond.config.kinds import Account, FilePath, Key, Name, meanings, text
from fusiond.config.model.on_end import Url

_LISTEN: Final = "write an address and a port, such as 127.0.0.1:8321 or [::1]:8321, or unix:/run/fusiond/web.sock"
_HOST: Final = "write a host name without a port, such as jobs.example.com"
_HEADER: Final = "write the name of a header, such as X-Forwarded-User"

Listen = Annotated[
    str,
    text(
        "address",
        r"^(unix:/[^\u0000\r\n]+|(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?):"
        "([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))$",
        _LISTEN,
    ),
]
HostName = Annotated[str, text("host name", r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$", _HOST)]
HeaderName = Annotated[str, text("header", r"^[A-Za-z][A-Za-z0-9-]{0,99}$", _HEADER)]
ProxyAddress = Annotated[
    str,
    text(
        "address or network",
        r"^(((25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])(\.(?=.)|(?=/)|$)){4}(/(3[0-2]|[12]?[0-9]))?"
        "|([0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(/(12[0-8]|1[01][0-9]|[1-9]?[0-9]))?)$",
        "write an address or a network, such as 10.0.0.5 or fd00::/64",
    ),
]
Right = Annotated[
    Literal[
        "all", "read", "read_arguments", "logs", "metrics", "configuration", "enqueue", "requeue", "priority", "cancel",
        "delete", "suspend", "cron", "limits", "reload",
    ],
    meanings(
        "each right",
        "see jobs, failures, queues and whatever else a page shows",
        "see arguments, results and meta of jobs, inputs of flows, and bodies that could not be read",
        "see what jobs have printed",
        "see /metrics",
        "see the file, its history, and what a reload would do",
        "enqueue jobs, and start flows",
        "run jobs, runs of flows and bodies again",
        "change the priority of jobs that wait",
        "cancel jobs and runs of flows, and purge queues",
        "delete jobs and bodies",
        "suspend and resume queues, tasks and runs of flows",
        "run, suspend and resume cron entries",
        "release locks",
        "reload, roll back, restart groups, and drain this host",
    ),
]  # fmt: skip
#: rights that change nothing, and those that are not about one queue
READING: Final = frozenset({"read", "read_arguments", "logs", "metrics", "configuration"})
OF_THE_WHOLE: Final = frozenset({"metrics", "configuration", "cron", "reload"})
GroupName = Annotated[str, text("group", r"^[^,\u0000]{1,255}$", "write the name of a group, without a comma")]
QueueGlob = Annotated[
    str, text("queue or pattern", r"^[][A-Za-z0-9_.:@*?!-]{1,255}$", "write the name of a queue, or a pattern: mail*")
]


@dataclass(frozen=True, slots=True)
class Role:
    """What some people or programs may do."""

    #: What they may do. `all`: everything.
    may: Annotated[tuple[Right, ...], Key("May", ["read", "requeue"], ["all"], in_place=True)]
    #: Who has the role: groups that `group_header` names.
    groups: Annotated[tuple[GroupName, ...], Key("Groups", ["support"], in_place=True)] = ()
    #: Names and patterns of the queues to which that is limited. Pages that are not about one queue are refused then.
    queues: Annotated[tuple[QueueGlob, ...], Key("Queues", ["mail*"], in_place=True)] = ("*",)


@dataclass(frozen=True, slots=True)
class WebToken:
    """A token for a program."""

    #: A file with the token, of at least 16 characters; it is read at each reload.
    token_file: Annotated[FilePath, Key("Token file", "/run/credentials/fusiond.service/ci", in_place=True)]
    #: The role that it has.
    role: Annotated[Name, Key("Role", "deploy", in_place=True)]


@dataclass(frozen=True, slots=True)
class Web:
    """The dashboard and its API, which the extra `fusiond[web]` brings."""

    #: Address and port. Port 0: a free one. Beyond 127.0.0.1 and [::1], put a proxy with TLS in front of it. Or
    #: `unix:PATH`: a socket that only the daemon's user, its group or `socket_group` may connect to.
    listen: Annotated[
        Listen, Key("Listen", "127.0.0.1:8321", "[::1]:8321", "unix:/run/fusiond/web.sock", in_place=True)
    ] = "127.0.0.1:8321"
    #: unix: the system group whose members may connect, such as that of the proxy. null: the daemon's own group.
    socket_group: Annotated[Account | None, Key("Socket group", "www-data", in_place=True)] = None
    #: Further names under which browsers reach it, such as that of a proxy. A request with another name is refused.
    hosts: Annotated[tuple[HostName, ...], Key("Hosts", ["jobs.example.com"], in_place=True)] = ()
    #: A file with the token that logs in and may all, of at least 16 characters. null: the daemon makes one in its
    #: state directory.
    token_file: Annotated[FilePath | None, Key("Token file", "/run/credentials/fusiond.service/web", in_place=True)] = (
        None
    )
    #: true: the dashboard only shows; each action is refused.
    read_only: Annotated[bool, Key("Read only", True, in_place=True)] = False
    #: A header in which a proxy names the user it has logged in; a request that has it needs no token. It is believed
    #: from whoever reaches the port, so from each program of this machine, too; with `listen: unix:…` from those alone
    #: that may connect to the socket.
    user_header: Annotated[HeaderName | None, Key("User header", "X-Forwarded-User", in_place=True)] = None
    #: A header in which the proxy names the user's groups, with commas between them. It counts where `user_header`
    #: does.
    group_header: Annotated[HeaderName | None, Key("Group header", "X-Forwarded-Groups", in_place=True)] = None
    #: Who may what, by the name of the role. With it, a user without a role may nothing. Empty: each user may all.
    roles: Annotated[
        Mapping[Name, Role],
        Key(
            "Roles",
            {"support": {"groups": ["support"], "may": ["read", "requeue"], "queues": ["mail*"]}},
            in_place=True,
        ),
    ] = field(default_factory=dict)
    #: Further tokens, by a name for the log: each with a role, for programs that send it as `Authorization: Bearer …`.
    tokens: Annotated[
        Mapping[Name, WebToken],
        Key("Tokens", {"ci": {"token_file": "/run/credentials/fusiond.service/ci", "role": "deploy"}}, in_place=True),
    ] = field(default_factory=dict)
    #: Addresses and networks of proxies: each may have more than 64 requests at once, and its X-Forwarded-For is
    #: believed in the log.
    trusted_proxies: Annotated[
        tuple[ProxyAddress, ...], Key("Trusted proxies", ["10.0.0.5", "fd00::/64"], in_place=True)
    ] = ()
    #: The page of another program about a job, such as a store of logs; the page of the job has a link to it. `{job}`,
    #: `{queue}` and `{task}` in it are replaced by the id and the names, percent-encoded.
    log_url: Annotated[Url | None, Key("Log URL", "https://grafana.example.com/explore?job={job}", in_place=True)] = (
        None
    )

    @property
    def socket(self) -> str | None:
        """The path of the socket on which it listens; None: it listens on a port."""
        return self.listen.removeprefix("unix:") if self.listen.startswith("unix:") else None
