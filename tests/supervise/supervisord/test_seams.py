"""
Each seam of supervisor that is leant on. None is a documented face: where a release moves one, the test that names it
fails, before anything stranger does.
"""

import inspect

import pytest
from supervisor import http, loggers, options, poller, process, rpcinterface, states, supervisord, xmlrpc
from supervisor.medusa import asyncore_25, xmlrpc_handler

pytestmark = pytest.mark.proof

LOGGER = "logger_object"


def source(function):
    return inspect.getsource(function)


@pytest.mark.parametrize(
    ("owner", "name", "parameters"),
    [
        (options.ServerOptions, "usage", ["self", "msg"]),
        (options.ServerOptions, "make_logger", ["self"]),
        (options.ServerOptions, "write_pidfile", ["self"]),
        (options.ServerOptions, "setsignals", ["self"]),
        (options.ServerOptions, "get_signal", ["self"]),
        (options.ServerOptions, "fork", ["self"]),
        (options.ServerOptions, "close_parent_pipes", ["self", "pipes"]),
        (options.ServerOptions, "close_child_pipes", ["self", "pipes"]),
        (options.ServerOptions, "make_http_servers", ["self", "supervisord"]),
        (options.ServerOptions, "close_httpservers", ["self"]),
        (options.ServerOptions, "get_socket_map", ["self"]),
        (options.ProcessConfig, "make_dispatchers", ["self", "proc"]),
        (options.ProcessGroupConfig, "__init__", ["self", "options", "name", "priority", "process_configs"]),
        (options.ProcessGroupConfig, "make_group", ["self"]),
        (poller.PollPoller, "poll", ["self", "timeout"]),
        (process.Subprocess, "spawn", ["self"]),
        (process.Subprocess, "get_execv_args", ["self"]),
        (process.Subprocess, "change_state", ["self", "new_state", "expected"]),
        (process.Subprocess, "finish", ["self", "pid", "sts"]),
        (process.Subprocess, "transition", ["self"]),
        (process.Subprocess, "stop", ["self"]),
        (process.Subprocess, "signal", ["self", "sig"]),
        (supervisord.Supervisor, "run", ["self"]),
        (supervisord.Supervisor, "runforever", ["self"]),
        (supervisord.Supervisor, "tick", ["self", "now"]),
        (supervisord.Supervisor, "handle_signal", ["self"]),
        (supervisord.Supervisor, "ordered_stop_groups_phase_1", ["self"]),
        (rpcinterface.SupervisorNamespaceRPCInterface, "__init__", ["self", "supervisord"]),
        (http.supervisor_af_unix_http_server, "__init__", ["self", "socketname", "sockchmod", "sockchown", LOGGER]),
        (http.deferring_http_channel, "__init__", ["self", "server", "conn", "addr"]),
        (http.deferring_http_channel, "readable", ["self"]),
        (http.deferring_http_channel, "collect_incoming_data", ["self", "data"]),
        (http.deferring_http_channel, "set_terminator", ["self", "term"]),
        (http.deferring_http_channel, "found_terminator", ["self"]),
        (http.deferring_http_channel, "handle_error", ["self"]),
        (http.deferring_http_channel, "close_when_done", ["self"]),
        (http.deferring_http_channel, "discard_buffers", ["self"]),
        (http.logtail_handler, "__init__", ["self", "supervisord"]),
        (xmlrpc.supervisor_xmlrpc_handler, "__init__", ["self", "supervisord", "subinterfaces"]),
        (xmlrpc.supervisor_xmlrpc_handler, "continue_request", ["self", "data", "request"]),
        (xmlrpc.SystemNamespaceRPCInterface, "__init__", ["self", "namespaces"]),
    ],
)  # fmt: skip
def test_a_method_that_is_overridden_or_called_is_there(owner, name, parameters):
    """Its name and its parameters."""
    assert list(inspect.signature(getattr(owner, name)).parameters) == parameters


def test_a_program_needs_only_the_settings_that_are_given():
    """The others are None: ProcessConfig has a list of the names of all of them."""
    assert set(options.ProcessConfig.optional_param_names) == {"environment", "serverurl"}
    assert "stdout_syslog" in options.ProcessConfig.req_param_names


def test_the_levels_of_messages_are_those_of_logging():
    """Each level's number, and below DEBUG what is left out."""
    names = {"CRIT": 50, "ERRO": 40, "WARN": 30, "INFO": 20, "DEBG": 10}
    assert {name: getattr(loggers.LevelsByName, name) for name in names} == names
    assert loggers.LevelsByName.TRAC < 10


def test_each_signal_has_its_name():
    """As `kill -l` shows it; a real-time signal has a number."""
    assert [options.signame(number) for number in (6, 9, 40)] == ["SIGABRT", "SIGKILL", "signal 40"]


def test_options_need_no_realize():
    """ServerOptions can be made without reading sys.argv; what realize() would set is None."""
    made = options.ServerOptions()
    assert (made.nodaemon, made.identifier) == (None, None)
    assert made.pidhistory == {}
    assert made.mood == states.SupervisorStates.RUNNING


def test_the_loop_calls_in_the_order_that_is_built_on():
    """poll, transition, reap, handle_signal, tick; the poller alone decides how long it sleeps."""
    loop = source(supervisord.Supervisor.runforever)
    calls = [
        "self.get_process_map()",
        "self.ordered_stop_groups_phase_1()",
        "self.options.poller.poll(timeout)",
        "group.transition()",
        "self.reap()",
        "self.handle_signal()",
        "self.tick()",
    ]
    assert sorted(calls, key=loop.index) == calls
    assert "raise asyncore.ExitNow" in loop
    assert issubclass(asyncore_25.ExitNow, Exception)


def test_the_loop_polls_what_processes_and_the_socket_map_hold():
    """A link is polled because it is in `dispatchers`, the wake-up pipe because it is in the socket map."""
    loop = source(supervisord.Supervisor.runforever)
    assert "combined_map.update(socket_map)" in loop
    assert "process.dispatchers" in source(process.ProcessGroupBase.get_dispatchers)


def test_spawn_makes_dispatchers_and_then_forks():
    """make_dispatchers says what fork() is to start; a pid from fork() makes it the parent's side."""
    spawn = source(process.Subprocess.spawn)
    order = ["self.get_execv_args()", "self.config.make_dispatchers(self)", "options.fork()", "_spawn_as_parent(pid)"]
    assert sorted(order, key=spawn.index) == order
    assert "options.pidhistory[pid] = self" in source(process.Subprocess._spawn_as_parent)


def test_transition_starts_what_is_due_and_kills_what_overran():
    """STOPPED and never started, BACKOFF and its delay over; STOPPING and its delay over."""
    text = source(process.Subprocess.transition)
    assert "state == ProcessStates.STOPPED and not self.laststart" in text
    assert "now > self.delay" in text
    assert "self.kill(signal.SIGKILL)" in text


def test_finish_tells_an_asked_end_from_another():
    """`killing` is true where the end was asked for; else the state is EXITED, which we make BACKOFF or FATAL."""
    text = source(process.Subprocess.finish)
    assert "if self.killing:" in text
    assert "self.change_state(ProcessStates.EXITED" in text
    assert "self.drain()" in text


def test_a_backoff_longer_than_its_count_is_taken_for_a_clock_that_was_set_back():
    """Why `backoff` is set to more than the delay."""
    text = source(process.Subprocess._check_and_adjust_for_system_clock_rollback)
    assert "self.delay - self.backoff" in text


def test_a_function_is_a_deferred_answer():
    """An RPC verb that returns a function with `delay` is asked again until it is done."""
    assert "isinstance(value, types.FunctionType)" in source(xmlrpc.supervisor_xmlrpc_handler.continue_request)
    assert http.NOT_DONE_YET is not None
    assert hasattr(http.deferring_http_channel, "delay")


def test_verbs_are_looked_up_as_methods_of_the_face():
    """A bound method set on an instance counts: that is how the table of verbs is made."""
    assert "isinstance(func, types.MethodType)" in source(xmlrpc.traverse)


def test_a_server_makes_a_channel_of_its_class_for_each_connection():
    """And a channel says when it was used last, and whether it defers an answer."""
    assert "self.channel_class (self, conn, addr)" in source(http.supervisor_af_unix_http_server.handle_accept)
    assert "self.last_used = " in source(http.deferring_http_channel.recv)
    assert http.deferring_http_channel.delay == 0
    assert "set_terminator (cl)" in source(xmlrpc_handler.collector)


def test_the_verbs_of_the_table_exist():
    """Each verb that supervisor_namespace passes on."""
    from fusiond.supervise.supervisord.rpc import VERBS

    assert all(hasattr(rpcinterface.SupervisorNamespaceRPCInterface, verb) for verb in VERBS)
