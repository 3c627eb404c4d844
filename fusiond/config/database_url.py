"""The address of an outbox's database, read without SQLAlchemy, which the daemon never loads."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from fusiond.config.endpoints import BadUrl
from fusiond.config.model import Outbox
from fusiond.errors import ConfigError
from fusiond.files import read_secret

#: dialect and driver, as SQLAlchemy is given them, and what the file may have in their place
_POSTGRESQL: Final = ("postgresql+psycopg", "postgresql", "postgres")
_EXAMPLES: Final = "write postgresql+psycopg://user@host/database or sqlite:////path"
_ESCAPES: Final = "write host:port, and in the password %23 for #, %2F for /, %3A for :, %3F for ? and %40 for @"


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """What is known of a database by its address."""

    #: as SQLAlchemy takes it; may hold a password
    text: str
    is_postgresql: bool
    #: the role that connects; "" where the address names none
    user: str


def parse_database_url(text: str) -> DatabaseUrl:
    """The parts of an address. Raises BadUrl, which quotes nothing that may hold a password."""
    if re.search(r"[\0-\x1f]", unquote(text)):
        raise BadUrl("the URL has a line end or another control character", "write it on one line")
    scheme, separator, rest = text.partition("://")
    if not separator:
        raise BadUrl("the URL has no scheme", _EXAMPLES)
    if scheme not in (*_POSTGRESQL, "sqlite"):
        raise BadUrl(f"{scheme[:30]}:// is not a database that an outbox can be in", _EXAMPLES)
    if scheme == "sqlite":
        if not rest.startswith("//"):
            raise BadUrl("the URL has no absolute path", "write sqlite:////srv/shop.db, with four slashes")
        return DatabaseUrl(text, is_postgresql=False, user="")
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:  # what stands behind a colon is no port, or a bracket is not closed
        raise BadUrl("the URL's host or port cannot be read", _ESCAPES) from None
    # Of two @ in front of the path, SQLAlchemy takes the first one: the rest of a password would be the host.
    if "@" in parts.path or "@" in parts.query or parts.fragment or parts.netloc.count("@") > 1:
        raise BadUrl("the URL has a character that must be escaped", _ESCAPES)
    users = [unquote(parts.username or ""), *parse_qs(parts.query).get("user", ())]
    return DatabaseUrl(f"{_POSTGRESQL[0]}://{rest}", is_postgresql=True, user=users[-1])


def keys_of_postgresql(outbox: Outbox) -> list[str]:
    """The keys of the outbox that only PostgreSQL takes."""
    return [key for key, is_set in (("schema", outbox.schema), ("wake", outbox.wake == "notify")) if is_set]


def database_url(outbox: Outbox) -> DatabaseUrl:
    """
    The address of an outbox's database, from `url` or `url_file`.

    Raises:
        OSError: the file cannot be read now, is empty or is not UTF-8.
        ConfigError: the address cannot be used, or not with the outbox's other keys.
    """
    try:
        url = parse_database_url(outbox.url or read_secret(outbox.url_file or ""))
    except BadUrl as error:
        raise ConfigError(f"the address of the outbox cannot be used: {error}; {error.remedy}") from None
    if not url.is_postgresql and (keys := keys_of_postgresql(outbox)):
        raise ConfigError(f"the outbox is in SQLite, which takes no {keys[0]}; remove the key")
    return url
