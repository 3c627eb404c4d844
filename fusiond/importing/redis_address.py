"""The address of a broker in the settings of another runner → that of the file."""

import re
from typing import Any, Final
from urllib.parse import quote

from fusiond.importing.draft import Draft

_REDIS: Final = re.compile(r"(rediss?)://(?:([^:@/]*)(?::([^@]*))?@)?([^/?#]*)(/\d+)?/?([?#].*)?")


def take_broker(given: Any, draft: Draft) -> None:
    """Take over the address of a Redis, without its password; a comment says what was not."""
    if given is None:
        return
    found = _REDIS.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        shown = given if not isinstance(given, str) else given.partition("://")[0]
        draft.leave_out(f"broker {shown}", "jobs are kept in Redis: `url: embedded`, or the address of one")
        return
    scheme, user, password, host, database, more = found.groups()
    if password:
        draft.leave_out("the broker's password", "put it into a file that `password_file` names")
    if more:
        draft.leave_out(f"broker: {more}", "`tls` of the broker names certificates")
    name = f"{quote(user)}@" if user else ""
    draft.broker.values["url"] = f"{scheme}://{name}{host or 'localhost'}{database or ''}"
