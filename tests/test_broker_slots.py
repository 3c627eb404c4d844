"""Routes through a Cluster, without one: which node is asked what, and what follows from its answer."""

import time

import pytest
from hiredis import ReplyError

from fusiond.broker import slots
from fusiond.broker.address import Address
from fusiond.broker.broker import Broker
from fusiond.broker.call import as_is, plain, scripted
from fusiond.broker.connection import meaning, meanings
from fusiond.broker.keys import Keys
from fusiond.broker.node import forgotten
from fusiond.broker.slots import ClusterAddress, Slots
from fusiond.errors import BrokerUnavailable, BrokerUnfit

ONE, TWO, THREE = "10.0.0.1:1", "10.0.0.2:2", "::1:3"
MAP = [
    [0, 8000, [b"10.0.0.1", 1, b"id"]],
    [8001, 16383, [b"10.0.0.2", 2, b"id"], [b"::1", 3, b"id"]],
]
WAIT = plain(as_is, "WAIT", 1, 1000)
LOST = BrokerUnavailable("gone")


def get(key):
    return plain(as_is, "GET", key)


#: a key of the first range of MAP, one of the second
A, B = "{b}", "{a}"


class Nodes:
    """Answers a route from a script of answers by node; keeps what was asked."""

    def __init__(self, *answers, table=MAP):
        self.answers, self.table, self.asked = list(answers), table, []

    def follow(self, route):
        try:
            step = next(route)
            while True:
                if isinstance(step, float):
                    time.sleep(step)
                    step = route.send(None)
                else:
                    step = route.send([self._answer(part) for part in step])
        except StopIteration as end:
            return end.value

    def _answer(self, part):
        if part.calls[0].words == ("CLUSTER", "SLOTS"):
            return [self.table]
        words = [call.words for call in part.calls]
        self.asked.append((part.node, words))
        node, answer = self.answers.pop(0)
        assert node == part.node, (node, part)
        return answer


@pytest.fixture
def route():
    address = ClusterAddress("shown", (("10.0.0.1", 1),), lambda host, port: Address(f"{host}:{port}", "", {}))
    return Slots(address).route


def test_calls_go_to_the_node_of_their_slot_and_come_back_in_order(route):
    """One part for each node; a WAIT stays with the call before it."""
    nodes = Nodes((ONE, [b"1", b"3", 1]), (TWO, [b"2"]))
    assert nodes.follow(route([get(A), get(B), get(A), WAIT], 0)) == [b"1", b"2", b"3", 1]
    assert [len(words) for _, words in nodes.asked] == [3, 1]


def test_moved_is_followed_with_what_confirms_it(route):
    """The WAIT that was answered by the wrong node has confirmed nothing."""
    nodes = Nodes((ONE, [ReplyError("MOVED 3300 10.0.0.2:2"), 1]), (TWO, [b"x", 0]))
    assert nodes.follow(route([get(A), WAIT], 0)) == [b"x", 0]


def test_a_redirection_may_leave_out_the_host_or_have_many_colons(route):
    """As Redis writes them."""
    moved = [[ReplyError("MOVED 3300 :7")], [ReplyError("MOVED 3300 ::1:3")], [b"x"]]
    nodes = Nodes(*zip((ONE, "10.0.0.1:7", THREE), moved, strict=True))
    assert nodes.follow(route([get(A)], 0)) == [b"x"]


def test_ask_goes_there_once_with_asking(route):
    """The map stays; the reply to ASKING is no reply of ours."""
    nodes = Nodes((ONE, [ReplyError("ASK 3300 10.0.0.2:2")]), (TWO, [b"OK", b"x"]))
    assert nodes.follow(route([get(A)], 0)) == [b"x"]
    assert nodes.asked[1][1] == [("ASKING",), ("GET", A)]


def test_a_slot_on_its_way_is_waited_for_where_nobody_else_waits(route):
    """Alone it is asked again; beside others their replies come at once."""
    again = ReplyError("TRYAGAIN Multiple keys request during rehashing of slot")
    assert Nodes((ONE, [again]), (ONE, [again]), (ONE, [b"x"])).follow(route([get(A)], 0)) == [b"x"]
    assert Nodes((ONE, [again]), (TWO, [b"y"])).follow(route([get(A), get(B)], 0)) == [again, b"y"]


def test_a_slot_that_never_arrives_is_given_up(route, monkeypatch):
    """With Redis' own word, which is one that passes."""
    monkeypatch.setattr(slots, "PATIENCE", 0.2)
    again = ReplyError("TRYAGAIN …")
    assert Nodes(*[(ONE, [again])] * 100).follow(route([get(A)], 0)) == [again]


def test_redirections_in_a_circle_end(route):
    """Two nodes that each name the other."""
    circle = [(ONE, [ReplyError("MOVED 1 10.0.0.2:2")]), (TWO, [ReplyError("MOVED 1 10.0.0.1:1")])] * 20
    [reply] = Nodes(*circle).follow(route([get(A)], 0))
    assert str(reply).startswith("MOVED")


def test_a_lost_node_costs_the_others_nothing(route):
    """Its replies are errors in their places, also where it alone was asked: the others may well be there."""
    assert Nodes((ONE, LOST), (TWO, [b"y"])).follow(route([get(A), WAIT, get(B)], 0)) == [LOST, LOST, b"y"]
    assert Nodes((ONE, LOST)).follow(route([get(A)], 0)) == [LOST]


def test_a_lost_nodes_reply_is_raised_by_whoever_asked_it_alone():
    """And stands in its place in a pipeline."""
    call = get(A)
    with pytest.raises(BrokerUnavailable, match="gone"):
        meaning(call, LOST)
    assert meanings([call, call], [LOST, b"x"]) == [LOST, b"x"]


def test_what_a_lost_node_was_asked_may_be_repeated_at_its_successor(route):
    """As a producer's call is, once, by the new map."""
    nodes = Nodes((ONE, LOST), (TWO, [b"x"]))

    def follow():
        steps = route([get(A)], 1)
        answers = None
        while True:
            step = steps.send(answers)
            answers = [nodes._answer(part) for part in step]
            if LOST in answers:
                nodes.table = [[0, 16383, [b"10.0.0.2", 2, b"id"]]]

    with pytest.raises(StopIteration) as end:
        follow()
    assert end.value.value == [b"x"]


def test_a_slot_without_a_node_is_unavailable(route, monkeypatch):
    """And not a wrong node's business."""
    monkeypatch.setattr(slots, "PATIENCE", 0.2)
    half = [[8001, 16383, [b"10.0.0.2", 2, b"id"]]]
    [reply] = Nodes(table=half).follow(route([get(A)], 0))
    assert str(reply).startswith("CLUSTERDOWN")


def test_ping_asks_every_primary(route):
    """Redis is back when all of it is."""
    ping = plain(as_is, "PING")
    assert Nodes((ONE, [b"PONG"]), (TWO, [b"PONG"])).follow(route([ping], 0)) == [b"PONG"]
    with pytest.raises(BrokerUnavailable, match="gone"):
        Nodes((ONE, [b"PONG"]), (TWO, LOST)).follow(route([ping], 0))
    with pytest.raises(BrokerUnavailable, match="some slots have no node"):
        Nodes(table=MAP[:1]).follow(route([ping], 0))


def test_a_scan_of_all_keys_goes_round_the_nodes(route):
    """One of a queue goes to the queue's node alone."""
    nodes = Nodes((ONE, [[b"18446744073709551615", [b"1"]]]), (ONE, [[b"0", [b"2"]]]), (TWO, [[b"0", [b"3"]]]))
    found, cursor = [], None
    while cursor != 0:
        call = plain(as_is, "SCAN", cursor or 0, "MATCH", "fusion:{*}:*", "COUNT", 10)
        [(text, keys)] = nodes.follow(route([call], 0))
        cursor = int(text)
        found += keys
    assert found == [b"1", b"2", b"3"]
    assert [words[0][1] for _, words in nodes.asked] == [0, 18446744073709551615, 0]
    own = plain(as_is, "SCAN", 5, "MATCH", b"fusion:{a}:job:*", "COUNT", 10)
    assert Nodes((TWO, [[b"7", []]])).follow(route([own], 0)) == [[b"7", []]]


def test_a_queues_verb_declares_two_keys_and_no_other_script_does(route):
    """Of a slot that is moved key by key Redis could not know else that the script needs all of it."""
    everything = [[0, 16383, [b"10.0.0.1", 1, b"id"]]]
    queue, fleet = Broker().counts("b"), scripted("generation", Keys("fusion").meta, ("h", ""), as_is)
    nodes = Nodes((ONE, [b"", b""]), table=everything)
    nodes.follow(route([queue, fleet], 0))
    of_queue, of_fleet = nodes.asked[0][1]
    assert of_queue[2:] == (2, b"fusion:{b}", b"fusion:{b}:")
    assert of_fleet[2:] == (1, "fusion:meta", "h", "")


def test_a_server_that_is_no_cluster_is_told_apart(route):
    """With the remedy."""
    with pytest.raises(BrokerUnfit, match="write redis://"):
        Nodes(table=ReplyError("ERR This instance has cluster support disabled")).follow(route([get(A)], 0))


def test_what_confirms_a_forgotten_script_is_asked_again_with_it():
    """A WAIT that was answered before the enqueue was done has confirmed nothing."""
    enqueue = Broker().counts("q")
    calls = [enqueue, WAIT, get(A), enqueue, WAIT]
    replies = [ReplyError("NOSCRIPT No matching script"), 1, b"", b"stored", 1]
    assert forgotten(calls, replies) == [0, 1]
