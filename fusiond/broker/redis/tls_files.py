"""
The files of a connection over TLS, looked at when it fails: OpenSSL's own words name neither the file nor its key.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fusiond.errors import BrokerUnavailable

#: what redis-py calls them → the keys of `broker.tls`, which are the client's arguments as well
_KEYS = {"ssl_ca_certs": "ca_file", "ssl_certfile": "cert_file", "ssl_keyfile": "key_file"}


def check(options: Mapping[str, Any]) -> None:
    """Raise BrokerUnavailable, with the file and what is wrong with it, unless all that are named can be used."""
    files = {key: options[name] for name, key in _KEYS.items() if options.get(name)}
    for key, path in files.items():
        try:
            Path(path).read_bytes()
        except OSError as error:
            raise _unusable(key, path, f"cannot be read: {error.strerror}") from None
    if ca := files.get("ca_file"):
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(ca)
        except ssl.SSLError:
            raise _unusable("ca_file", ca, "holds no certificate in PEM") from None
    if certificate := files.get("cert_file"):
        _check_pair(certificate, files.get("key_file"))
    elif alone := files.get("key_file"):
        raise _unusable("key_file", alone, "is of no use without cert_file")


def _check_pair(certificate: str, key: str | None) -> None:
    try:
        # An empty password: OpenSSL would ask the terminal for that of an encrypted key.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key, password="")
    except ssl.SSLError as error:
        if "KEY_VALUES_MISMATCH" in str(error):
            raise _unusable("key_file", key or certificate, f"is not the key of cert_file {certificate}") from None
        if "-----BEGIN CERTIFICATE-----" not in Path(certificate).read_text(errors="replace"):
            raise _unusable("cert_file", certificate, "holds no certificate in PEM") from None
        what = "holds no key in PEM that can be read without a password"
        raise _unusable("key_file" if key else "cert_file", key or certificate, what) from None


def _unusable(key: str, path: str, what: str) -> BrokerUnavailable:
    return BrokerUnavailable(f"{key} {path} {what}; mend it, or {key} in broker.tls of the file or of the Client")
