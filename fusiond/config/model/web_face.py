"""The `web` program: where it listens, and who may use it."""

from dataclasses import dataclass
from typing import Annotated, Final

from fusiond.config.kinds import Account, FilePath, Key, text

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
    #: A file with the token that logs in, of at least 16 characters. null: the daemon makes one in its state directory.
    token_file: Annotated[FilePath | None, Key("Token file", "/run/credentials/fusiond.service/web", in_place=True)] = (
        None
    )
    #: true: the dashboard only shows; each action is refused.
    read_only: Annotated[bool, Key("Read only", True, in_place=True)] = False
    #: A header in which a proxy names the user it has logged in; a request that has it needs no token. It is believed
    #: from whoever reaches the port, so from each program of this machine, too; with `listen: unix:…` from those alone
    #: that may connect to the socket.
    user_header: Annotated[HeaderName | None, Key("User header", "X-Forwarded-User", in_place=True)] = None
    #: Addresses and networks of proxies, which may have more than 64 requests at once.
    trusted_proxies: Annotated[
        tuple[ProxyAddress, ...], Key("Trusted proxies", ["10.0.0.5", "fd00::/64"], in_place=True)
    ] = ()

    @property
    def socket(self) -> str | None:
        """The path of the socket on which it listens; None: it listens on a port."""
        return self.listen.removeprefix("unix:") if self.listen.startswith("unix:") else None
