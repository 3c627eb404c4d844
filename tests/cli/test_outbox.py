"""`fusiond outbox init`: the file says which database, and the command which form."""

import pytest

from fusiond.outbox.migrations import FORMS
from tests.support.fusiond_command import fusiond, fusiond_here


def init(directory, outbox, *words):
    """The command for an outbox of a file."""
    (directory / "fusion.yaml").write_text(f"version: 1\ntasks: {{a: {{run: x.y}}}}\noutboxes: {{shop: {outbox}}}\n")
    return fusiond_here("outbox", "init", *words, cwd=directory)


@pytest.mark.parametrize("form", FORMS)
def test_the_address_says_the_database_and_the_role_of_the_daemon(form, tmp_path):
    """It connects to nothing."""
    done = init(tmp_path, "{url: 'postgres://carrier@no-such-host/d', tasks: [a]}", "shop", "--format", form)
    assert done.status == 0, done.err
    assert 'DELETE ON "public"."fusion_outbox" TO "carrier"' in done.out
    assert "--application" in done.err
    assert "INSERT (" not in done.out
    both = init(tmp_path, "{url: 'postgres://h/d', tasks: [a]}", "shop", "--application", "app", "--relay", "other")
    assert [role for role in ("app", "other") if f'TO "{role}"' in both.out] == ["app", "other"]
    assert not both.err


def test_sqlite_has_neither_roles_nor_schemas(tmp_path):
    """And the command says nothing of them."""
    done = init(tmp_path, "{url: 'sqlite:////srv/shop.db', tasks: [a]}", "shop")
    assert (done.status, done.err, "GRANT" in done.out, "public" in done.out) == (0, "", False, False)


def test_an_address_that_only_the_daemon_may_read_is_not_needed(tmp_path):
    """It is for PostgreSQL then, and the command says what is missing."""
    (tmp_path / "db").touch(mode=0)
    init(tmp_path, "{url_file: db, tasks: [a]}", "shop")
    done = fusiond("outbox", "init", "shop", cwd=tmp_path, as_person=True)
    assert (done.status, "timestamptz" in done.out) == (0, True)
    assert "cannot be read" in done.err


def test_an_outbox_that_there_is_not(tmp_path):
    """The nearest name is offered."""
    done = init(tmp_path, "{url: 'sqlite:////srv/shop.db', tasks: [a]}", "shpo")
    assert (done.status, "'shop'" in done.err) == (1, True)
