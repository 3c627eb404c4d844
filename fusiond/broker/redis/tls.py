"""
TLS: what a connection is encrypted with. The files are read for each connection, so that they can be replaced.

OpenSSL's own words for a file that cannot be used name neither the file nor its key, so each is then looked at.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from fusiond.config import model
from fusiond.errors import BrokerUnavailable


@dataclass(frozen=True, slots=True)
class Encryption:
    """How connections to a Redis are encrypted."""

    files: model.Tls
    #: whether the server's certificate is checked; and whether the host's name must be in it
    check_certificate: bool
    check_hostname: bool

    def context(self) -> ssl.SSLContext:
        """For a new connection. Raises BrokerUnavailable, with the file that cannot be used."""
        files = self.files
        try:
            context = ssl.create_default_context(cafile=files.ca_file)
            if files.cert_file or files.key_file:
                context.load_cert_chain(files.cert_file or "", files.key_file, password="")
        except OSError:
            check(files)
            raise
        context.check_hostname = self.check_certificate and self.check_hostname
        context.verify_mode = ssl.CERT_REQUIRED if self.check_certificate else ssl.CERT_NONE
        return context


def check(files: model.Tls) -> None:
    """Raise BrokerUnavailable, with the file and what is wrong with it, unless all that are named can be used."""
    named = {"ca_file": files.ca_file, "cert_file": files.cert_file, "key_file": files.key_file}
    for key, path in named.items():
        if path:
            try:
                Path(path).read_bytes()
            except OSError as error:
                raise _unusable(key, path, f"cannot be read: {error.strerror}") from None
    if files.ca_file:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(files.ca_file)
        except ssl.SSLError:
            raise _unusable("ca_file", files.ca_file, "holds no certificate in PEM") from None
    if files.cert_file:
        _check_pair(files.cert_file, files.key_file)
    elif files.key_file:
        raise _unusable("key_file", files.key_file, "is of no use without cert_file")


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
