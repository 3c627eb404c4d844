"""What the modules of the tasks do as they are loaded, and would surprise later, is said once in the log."""

from tests.support.running import until


def warned(place, text, name="shop.py", **keys):
    """The warnings of a group whose module has this text, once it is ready."""
    (place.app / name).write_text(text)
    program = place.start(tasks={"surprise": {"run": "shop.f"}}, **keys)
    return until(lambda: [each["message"] for each in program.records() if each["level"] == "warning"], program.text)


def test_threads_that_the_modules_have_started_are_named(place):
    """No child has them, and what they lock stays locked there."""
    text = (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), name='poller', daemon=True).start()\n"
    )
    [warning] = warned(place, text + "def f(): ...\n")
    assert "have started threads (1: poller)" in warning


def test_a_new_child_above_max_memory_is_named_with_both_figures(place):
    """Each child would run one job only, without a word."""
    warning, *_ = warned(place, "data = b'x' * (80 << 20)\ndef f(): ...\n", max_memory=50 << 20)
    assert "MiB of memory already, and max_memory is 50 MiB" in warning


def test_a_file_that_hides_a_module_of_python_is_named(place):
    """What fails because of it says something else."""
    (place.app / "token.py").write_text("x = 1\n")
    warning, *_ = warned(place, "import token\ndef f(): ...\n")
    assert f"{place.app}/token.py hides the module token of Python's standard library" in warning


def test_asyncio_does_not_meet_a_file_of_the_application(place):
    """A group whose jobs run in a loop or in threads starts beside a `queue.py`, which asyncio would import."""
    (place.app / "queue.py").write_text("x = 1\n")
    place.start(executor="thread", isolation="process")
    assert place.result(place.enqueue("a_coroutine", 5)) == 5
