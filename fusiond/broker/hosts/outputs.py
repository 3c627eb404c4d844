"""
The verbs of what jobs have printed, which is in files of the host on which they ran: who has such files, and a question
to all of them with their answers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fusiond.broker.call import Call, Plan, decoded, nothing, number, plain, raw, texts
from fusiond.broker.keys import VerbGroup

#: s; a host that has said nothing for so long is forgotten, and what it keeps with it
_REMEMBERED = 30 * 86_400
#: s; a daemon says so often that it has such files, and answers if it was heard so lately
KEEPS_AGAIN, ANSWERS = 30.0, 75.0
#: s; an answer is there for so long
_ANSWER_TTL = 60


class OutputHost(NamedTuple):
    """A daemon that keeps what jobs print."""

    daemon: str
    host: str
    #: s since it was heard, by the clock of Redis
    silent: float

    @property
    def answers(self) -> bool:
        """Whether it can be asked."""
        return self.silent < ANSWERS


@dataclass(frozen=True, slots=True)
class OutputPart:
    """What one daemon has, a part of it: lines that an attempt has printed."""

    attempt: int
    #: epoch ms by the clock of the host when the last of it was printed
    at: int
    text: str


@dataclass(frozen=True, slots=True)
class OutputAnswer:
    """What one daemon answers to a question."""

    daemon: str
    host: str
    parts: tuple[OutputPart, ...]
    #: where the next question goes on
    after: str
    #: there is more by now
    more: bool

    def to_json(self) -> str:
        """As Redis has it."""
        parts = [[part.attempt, part.at, part.text] for part in self.parts]
        return json.dumps([self.daemon, self.host, parts, self.after, self.more])


class OutputVerbs(VerbGroup):
    """Verbs about what jobs have printed."""

    def keep_output(self, daemon: str, host: str) -> Plan[None]:
        """Say that a daemon keeps what jobs print; to be repeated every KEEPS_AGAIN seconds."""
        yield [
            plain(nothing, "SADD", self.keys.outputs, daemon),
            plain(nothing, "SET", f"{self.keys.outputs}:{daemon}", host, "EX", _REMEMBERED),
        ]

    def output_hosts(self) -> Plan[list[OutputHost]]:
        """Who keeps what jobs print, also those that do not answer any more, for 30 days."""
        names: list[bytes] = yield plain(texts, "SMEMBERS", self.keys.outputs)
        if not names:
            return []
        keys = [self.keys.outputs.encode() + b":" + name for name in names]
        said = yield [call for key in keys for call in (plain(raw, "GET", key), plain(number, "PTTL", key))]
        found = list(zip(names, said[::2], said[1::2], strict=True))
        if gone := [name for name, host, _ in found if host is None]:
            yield plain(nothing, "SREM", self.keys.outputs, *gone)
        return [
            OutputHost(decoded(name), decoded(host), max(0.0, _REMEMBERED - left / 1000) if left >= 0 else math.inf)
            for name, host, left in found
            if host is not None
        ]

    def ask_output(
        self, token: str, job: str, attempt: int | None, only: str | None, after: Mapping[str, str]
    ) -> Call[None]:
        """
        Ask all daemons for what a job has printed; `output_answers` has what they say.

        Args:
            token: of this question, as `new_token` makes it.
            job: its id.
            attempt: of this one; None: of all.
            only: what it has printed in this queue; None: in any.
            after: daemon → where its last answer ended.
        """
        question = {"token": token, "job": job, "attempt": attempt, "queue": only, "after": dict(after)}
        return plain(nothing, "PUBLISH", self.keys.outputs, json.dumps(question))

    def answer_output(self, token: str, answer: OutputAnswer) -> Plan[None]:
        """Answer a question."""
        key = self._answers(token)
        yield [plain(nothing, "RPUSH", key, answer.to_json()), plain(nothing, "EXPIRE", key, _ANSWER_TTL)]

    def output_answers(self, token: str) -> Call[list[OutputAnswer]]:
        """The answers that have come so far. Raises BrokerError for what is none."""
        return plain(_answers, "LRANGE", self._answers(token), 0, -1)

    def _answers(self, token: str) -> str:
        return f"{self.keys.outputs}:answers:{token}"


def _answers(reply: Any) -> list[OutputAnswer]:
    return [_answer(json.loads(each)) for each in texts(reply)]


def _answer(said: Sequence[Any]) -> OutputAnswer:
    daemon, host, parts, after, more = said
    found = tuple(OutputPart(int(attempt), int(at), str(text)) for attempt, at, text in parts)
    return OutputAnswer(str(daemon), str(host), found, str(after), bool(more))
