"""Hear that there are new rows: `LISTEN` on a connection of its own to PostgreSQL."""

from __future__ import annotations

import asyncio
from typing import Any

from sqlalchemy import Connection, text

from fusiond.outbox.table import told


class Listener:
    """Sets an event when the table's trigger has told of rows. What goes unheard is found by the next poll."""

    def __init__(self, connection: Connection, channel: str, heard: asyncio.Event) -> None:
        """Raises OutboxError."""
        self._connection, self._heard = connection, heard
        with told(channel):
            quoted = connection.dialect.identifier_preparer.quote_identifier(channel)
            connection.execute(text(f"LISTEN {quoted}"))
            driver: Any = connection.connection.driver_connection
            #: whether a pooler is in between: it may give each transaction another session, and pass on no notification
            self.is_pooled = connection.scalar(text("SELECT pg_backend_pid()")) != driver.info.backend_pid
        self._driver, self._socket = driver, driver.fileno()
        #: whether the connection has ended: another listener is needed
        self.is_lost = False
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._on_readable)

    def _on_readable(self) -> None:
        try:
            for _ in self._driver.notifies(timeout=0):
                pass
        except Exception:  # noqa: BLE001 - the driver's own errors, which need it to be imported; the next poll meets them
            self._loop.remove_reader(self._socket)
            self.is_lost = True
        self._heard.set()

    def close(self) -> None:
        """End the connection."""
        if not self.is_lost:  # another connection may have the number of the socket by now
            self._loop.remove_reader(self._socket)
        self._connection.invalidate()
        self._connection.close()
