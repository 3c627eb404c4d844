"""Routes through a Cluster, without one: which node is asked what, and what follows from its answer."""

import time
from types import SimpleNamespace

import pytest
from redis.crc import key_slot
from redis.exceptions import SlotNotCoveredError

from fusiond.broker.call import as_is, plain, scripted
from fusiond.broker.keys import Keys
from fusiond.broker.redis import cluster
from fusiond.broker.redis.cluster import ClusterNodes
from fusiond.broker.redis.protocol import Step, forgotten
from fusiond.broker.redis.redis_errors import ReplyError
from fusiond.broker.verbs import Verbs
from fusiond.errors import BrokerUnavailable

ONE, TWO, THREE = "10.0.0.1:1", "10.0.0.2:2", "::1:3"
OWNERS = [(0, 8000, ONE), (8001, 16383, TWO)]
WAIT = plain(as_is, "WAIT", 1, 1000)
LOST = BrokerUnavailable("gone")


def get(key):
    return plain(as_is, "GET", key)


#: a key of the first range of MAP, one of the second
A, B = "{b}", "{a}"


class Map:
    """What redis-py keeps of a Cluster."""

    def __init__(self, owners):
        self.owners = owners

    def get_node_from_key(self, key):
        slot = key_slot(key)
        for first, last, name in self.owners:
            if first <= slot <= last:
                return SimpleNamespace(name=name)
        raise SlotNotCoveredError

    def get_primaries(self):
        return [SimpleNamespace(name=name) for _, _, name in self.owners]


class Nodes:
    """Answers a conversation from a script of answers by node; keeps what was asked."""

    def __init__(self, *answers, owners=OWNERS):
        self.answers, self.owners, self.asked = list(answers), owners, []

    def follow(self, steps):
        result = None
        try:
            while True:
                step = steps.send(result)
                if isinstance(step, float):
                    time.sleep(step)
                elif step is Step.READ_MAP:
                    result = Map(self.owners)
                else:
                    result = [self._answer(part) for part in step]
        except StopIteration as end:
            return end.value

    def _answer(self, part):
        asked, calls = part
        self.asked.append((asked, [call.words for call in calls]))
        node, answer = self.answers.pop(0)
        assert node == asked, part
        if answer is LOST:
            self.owners = [(0, 16383, TWO)]
        return answer


@pytest.fixture
def ask():
    return ClusterNodes("shown", 0).ask


def test_calls_go_to_the_node_of_their_slot_and_come_back_in_order(ask):
    """One part for each node; a WAIT stays with the call before it."""
    nodes = Nodes((ONE, [b"1", b"3", 1]), (TWO, [b"2"]))
    assert nodes.follow(ask([get(A), get(B), get(A), WAIT])) == [b"1", b"2", b"3", 1]
    assert [len(words) for _, words in nodes.asked] == [3, 1]


def test_moved_is_followed_with_what_confirms_it(ask):
    """The WAIT that was answered by the wrong node has confirmed nothing."""
    nodes = Nodes((ONE, [ReplyError("MOVED 3300 10.0.0.2:2"), 1]), (TWO, [b"x", 0]))
    assert nodes.follow(ask([get(A), WAIT])) == [b"x", 0]


def test_ask_goes_there_once_with_asking(ask):
    """The map stays; the reply to ASKING is not a reply of ours."""
    nodes = Nodes((ONE, [ReplyError("ASK 3300 10.0.0.2:2")]), (TWO, [b"OK", b"x"]))
    assert nodes.follow(ask([get(A)])) == [b"x"]
    assert nodes.asked[1][1] == [("ASKING",), ("GET", A)]


def test_a_slot_on_its_way_is_waited_for_where_nobody_else_waits(ask):
    """Alone it is asked again; beside others their replies come at once."""
    again = ReplyError("TRYAGAIN Multiple keys request during rehashing of slot")
    assert Nodes((ONE, [again]), (ONE, [again]), (ONE, [b"x"])).follow(ask([get(A)])) == [b"x"]
    assert Nodes((ONE, [again]), (TWO, [b"y"])).follow(ask([get(A), get(B)])) == [again, b"y"]


def test_a_slot_that_never_arrives_is_given_up(ask, monkeypatch):
    """With Redis' own word, which is one that passes."""
    monkeypatch.setattr(cluster, "PATIENCE", 0.2)
    again = ReplyError("TRYAGAIN …")
    assert Nodes(*[(ONE, [again])] * 100).follow(ask([get(A)])) == [again]


def test_a_lost_node_costs_the_others_nothing(ask):
    """Its replies are errors in their places, also where it alone was asked: the others may well be there."""
    assert Nodes((ONE, LOST), (TWO, [b"y"])).follow(ask([get(A), WAIT, get(B)])) == [LOST, LOST, b"y"]
    assert Nodes((ONE, LOST)).follow(ask([get(A)])) == [LOST]


def test_a_scan_of_all_keys_goes_round_the_nodes(ask):
    """One of a queue goes to the queue's node alone."""
    nodes = Nodes((ONE, [[b"18446744073709551615", [b"1"]]]), (ONE, [[b"0", [b"2"]]]), (TWO, [[b"0", [b"3"]]]))
    found, cursor = [], None
    while cursor != 0:
        call = plain(as_is, "SCAN", cursor or 0, "MATCH", "fusion:{*}:*", "COUNT", 10)
        [(text, keys)] = nodes.follow(ask([call]))
        cursor = int(text)
        found += keys
    assert found == [b"1", b"2", b"3"]
    assert [words[0][1] for _, words in nodes.asked] == [0, 18446744073709551615, 0]
    own = plain(as_is, "SCAN", 5, "MATCH", b"fusion:{a}:job:*", "COUNT", 10)
    assert Nodes((TWO, [[b"7", []]])).follow(ask([own])) == [[b"7", []]]


def test_a_queues_verb_declares_two_keys_and_no_other_script_does(ask):
    """Of a slot that is moved key by key Redis could not know else that the script needs all of it."""
    queue, fleet = Verbs().counts("b"), scripted("generation", Keys("fusion").meta, ("h", ""), as_is)
    nodes = Nodes((ONE, [b"", b""]), owners=[(0, 16383, ONE)])
    nodes.follow(ask([queue, fleet]))
    of_queue, of_fleet = nodes.asked[0][1]
    assert of_queue[2:] == (2, b"fusion:{b}", b"fusion:{b}:")
    assert of_fleet[2:] == (1, "fusion:meta", "h", "")


def test_what_confirms_a_forgotten_script_is_asked_again_with_it():
    """A WAIT that was answered before the enqueue was done has confirmed nothing."""
    enqueue = Verbs().counts("q")
    calls = [enqueue, WAIT, get(A), enqueue, WAIT]
    replies = [ReplyError("NOSCRIPT No matching script"), 1, b"", b"stored", 1]
    assert forgotten(calls, replies) == [0, 1]
    # Another connection may have loaded the script between the two.
    assert forgotten([enqueue, enqueue, WAIT], [replies[0], b"stored", 1]) == [0, 2]
