"""What Redis does about limits, one script at a time: as claim.lua, settle.lua, cancel.lua, shared/places.lua."""

from __future__ import annotations

from tests.model.limited_states import (
    ENDED,
    HELD,
    LATER,
    OVER,
    QUEUED,
    STARTED,
    Bounds,
    Guards,
    LimitedJob,
    LimitedQueue,
    Moment,
)


class Script:
    """One script: each method does what a part of the Lua files does; `done` gives what Redis has then."""

    def __init__(self, moment: Moment, bounds: Bounds, guards: Guards) -> None:
        self._moment, self._bounds, self._guards = moment, bounds, guards
        queue = moment.queue
        self.jobs, self._places = list(queue.jobs), set(queue.places)
        self._most, self._again, self._waits = queue.most, queue.again, queue.waits
        #: whether the row has more than before, or a place is free
        self._moved = False
        #: jobs that have begun
        self.begun: list[int] = []

    def done(self) -> Moment:
        """The moment after it, with small places: only their order counts."""
        order = sorted({job.place for job in self.jobs if job.place})
        jobs = tuple(job._replace(place=order.index(job.place) + 1) if job.place else job for job in self.jobs)
        queue = LimitedQueue(jobs, self._most, frozenset(self._places), self._again, self._waits)
        return self._moment._replace(queue=queue)

    # -- the verbs

    def enter(self, at: int) -> None:
        """enqueue, requeue, promote: -> QUEUED, behind the others."""
        last = max(job.place for job in self.jobs)
        self.jobs[at] = LimitedJob(QUEUED, place=last + 1, expiry=self.jobs[at].expiry)
        self._moved = True
        self._wake()

    def cancel(self, at: int) -> None:
        """Waiting -> ENDED; of one that runs it is noted."""
        job = self.jobs[at]
        if job.status == STARTED:
            self._set(at, cancel=True)
        else:
            self._end(at)
            self._wake()

    def settle(self, at: int, token: int, outcome: str) -> None:
        """STARTED -> ENDED, also of a retry that would come too late; LATER, or QUEUED at the old place."""
        job = self.jobs[at]
        if self._guards.fenced and job.token != token:
            return
        if self._guards.given_back:
            self._free(at)
        if job.cancel or outcome == ENDED or (outcome == LATER and job.expiry == OVER):
            self._end(at)
        else:
            self.jobs[at] = LimitedJob(outcome, place=job.place, expiry=job.expiry)
            self._moved = self._moved or outcome == QUEUED
        if self._guards.woken:
            self._wake()

    def claim(self, want: int, few: int) -> None:
        """As many as `want`, of limited tasks at most `few`."""
        self._rescue()
        self._look_again()
        room = self._bounds.of_queue - sum(job.status == STARTED for job in self.jobs)
        most, is_stopped = (room, True) if self._guards.counted and room < want else (want, False)
        stays = False
        while not stays and len(self.begun) < most and (at := self._best(QUEUED)) is not None:
            stays = self._begin(at, few)
        left = self._best(QUEUED) is not None
        is_stopped = left and is_stopped and len(self.begun) >= most
        if len(self.begun) < want and (not left or is_stopped):
            self._waits = True
        elif left:
            self._wake()

    # -- parts of a claim

    def _rescue(self) -> None:
        """Expired leases: STARTED -> QUEUED, the old place."""
        for at, job in enumerate(self.jobs):
            if job.status == STARTED and job.lapsed:
                if self._guards.rescued:
                    self._free(at)
                if job.cancel:
                    self._end(at)
                else:
                    self.jobs[at] = LimitedJob(QUEUED, place=job.place, expiry=job.expiry)
                    self._moved = True

    def _look_again(self) -> None:
        for at, job in enumerate(self.jobs):
            if job.status == HELD and job.expiry == OVER:
                self._end(at)
        if self._again:
            for key in set(self._bounds.keys):
                for _ in range(self._room(key)):
                    self._pass_on(key)
        self._again = False

    def _begin(self, at: int, few: int) -> bool:
        """QUEUED -> STARTED, HELD or ENDED; True: it stays, for a free child."""
        job = self.jobs[at]
        if job.expiry == OVER:
            self._end(at)
        elif self._room(self._bounds.keys[at]) < 1:
            self._set(at, status=HELD, has_turn=False)
        elif len(self.begun) >= few:
            return True
        else:
            token = self._new_token()
            self.jobs[at] = LimitedJob(STARTED, token, job.place, expiry=job.expiry)
            self.begun.append(at)
            if self._guards.taken:
                self._places.add((at, token))
        return False

    # -- places

    def _free(self, at: int) -> None:
        """An attempt is over."""
        self._places = {place for place in self._places if place[0] != at}
        self._moved = True
        if self._guards.passed_on:
            self._pass_on(self._bounds.keys[at])

    def _pass_on(self, key: str) -> None:
        """HELD -> QUEUED: the best of the key."""
        at = self._best(HELD, key) if self._guards.best else self._best(HELD, key, worst=True)
        if at is not None:
            last = max(job.place for job in self.jobs)
            place = self.jobs[at].place if self._guards.old_place else last + 1
            self._set(at, status=QUEUED, has_turn=True, place=place)
            self._moved = True

    def _end(self, at: int) -> None:
        """-> ENDED; what waited for its turn passes it on."""
        job = self.jobs[at]
        self.jobs[at] = LimitedJob(ENDED)
        if job.status == QUEUED and job.has_turn and self._guards.withdrawn:
            self._pass_on(self._bounds.keys[at])

    def _room(self, key: str) -> int:
        return self._most - sum(self._bounds.keys[at] == key for at, _ in self._places)

    def _best(self, status: str, key: str = "", *, worst: bool = False) -> int | None:
        """The first job of the row, or of what is held."""
        found = [(job.place, at) for at, job in enumerate(self.jobs) if job.status == status]
        found = [each for each in found if key in ("", self._bounds.keys[each[1]])]
        return (max(found) if worst else min(found))[1] if found else None

    # -- the rest

    def _set(self, at: int, **changes: object) -> None:
        self.jobs[at] = self.jobs[at]._replace(**changes)

    def _wake(self) -> None:
        """Whoever is noted as waiting, if there is more to be had."""
        self._waits = self._waits and not self._moved

    def _new_token(self) -> int:
        saved = self._moment.saved
        jobs = (*self.jobs, *(saved.jobs if saved else ()))
        places = (*self._places, *self._moment.open, *(saved.places if saved else ()))
        known = {job.token for job in jobs} | {token for _, token in places}
        return next(token for token in range(1, 99) if token not in known)
