"""
The screen of `fusiond top`, with Textual: a table, a line of news and the keys.

1. look   at the view in a thread of its own, again and again; the keys work meanwhile
2. show   the rows; the cursor stays on the row that it was on
3. act    when a key is pressed: on the queue or job of that row, and then look again

If Redis cannot be reached, the last rows stay, and the line below says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, TypeVar

from rich.cells import cell_len
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Label, Static

from fusiond.cli.terminal.colours import colour_of_state
from fusiond.cli.terminal.table import fitted
from fusiond.cli.terminal.text import one_line
from fusiond.cli.top.top_views import OF_JOBS, VIEWS, Contents, Views
from fusiond.errors import FusionError

T = TypeVar("T")


class TextPage(ModalScreen[bool]):
    """
    A text over the table: all about a job, or a question. It answers whether `y` was pressed.

    The text may have colours, and nothing else that steers a terminal.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes", show=False),
        Binding("q,escape,enter,n", "answer(False)", "back"),
    ]
    CSS = """
    TextPage { align: center middle; background: $background 60%; }
    TextPage VerticalScroll { width: 90%; height: auto; max-height: 90%; border: round $primary; padding: 0 1; }
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """The text, and the keys below it."""
        yield VerticalScroll(Static(Text.from_ansi(self._text)))
        yield Footer()

    def action_answer(self, answer: bool) -> None:
        """Go back to the table."""
        self.dismiss(answer)


class TopApp(App[None]):
    """The whole screen."""

    TITLE = "fusiond top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(number), f"view('{view}')", view) for number, view in enumerate(VIEWS, 1)),
        Binding("s", "suspend", "suspend/resume"),
        Binding("r", "requeue", "requeue"),
        Binding("d", "drop", "delete"),
        Binding("c", "cancel", "cancel"),
        Binding("g", "restart", "restart group"),
        Binding("q", "quit", "quit"),
    ]
    CSS = """
    #head { background: $primary; color: $text; width: 100%; }
    #news { width: 100%; color: $text-muted; }
    DataTable { height: 1fr; }
    """

    def __init__(self, views: Views, every: float) -> None:
        """`every`: seconds between two looks."""
        super().__init__()
        self._views, self._every = views, every
        self._view = VIEWS[0]
        self._headings: tuple[str, ...] = ()
        #: key → cells, as the view has them
        self._rows: dict[str, tuple[object, ...]] = {}
        #: a session serves one thread
        self._thread = ThreadPoolExecutor(1)
        self._look_now = asyncio.Event()
        #: the line of news says why Redis cannot be asked
        self._is_away = False

    def compose(self) -> ComposeResult:
        """A head, the table, a line of news, the keys."""
        yield Label(id="head")
        yield DataTable[Text](cursor_type="row", zebra_stripes=True)
        yield Label(id="news")
        yield Footer()

    def on_mount(self) -> None:
        """Begin to look."""
        self.run_worker(self._keep_looking())

    def on_unmount(self) -> None:
        """Let the last look end, and begin no further one."""
        self.workers.cancel_all()
        self._thread.shutdown(cancel_futures=True)

    async def _keep_looking(self) -> None:
        while True:
            self._look_now.clear()
            view = self._view
            page = await self._ask(self._views.page, view)
            if page is not None and self._is_away:
                self._tell("")
            if page is not None and view == self._view:
                self._show(page)
            try:
                async with asyncio.timeout(self._every):
                    await self._look_now.wait()
            except TimeoutError:
                continue

    async def _ask(self, what: Callable[..., T], *arguments: Any) -> T | None:
        """The answer; None, with the reason on the screen, if there is none."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, what, *arguments)
        except FusionError as error:
            self._tell(f"{error}; trying again")
            self._is_away = True
            return None

    # -- what is shown ------------------------------------------------------------------------------------------------

    def _show(self, page: Contents) -> None:
        table = self._table()
        kept, row, self._rows = self._key(), table.cursor_row, page.rows
        with self.batch_update():
            table.clear(columns=page.headings != self._headings)
            if page.headings != self._headings:
                table.add_columns(*page.headings)
                self._headings = page.headings
            for key, cells in self._fitting(page).items():
                table.add_row(*cells, key=key)
            if page.rows:
                table.move_cursor(row=table.get_row_index(kept) if kept in page.rows else row, animate=False)
        self.query_one("#head", Label).update(
            Text(f" fusiond top · {self._views.namespace} · {self._view}: {page.note}")
        )

    def _fitting(self, page: Contents) -> dict[str, list[Text]]:
        """The rows, with long names cut: they must not push numbers off the screen."""
        rows = {key: [*map(_cell, cells)] for key, cells in page.rows.items()}
        words = [[cell.plain for cell in row] for row in rows.values()]
        widths = [max(map(cell_len, column)) for column in zip(page.headings, *words, strict=True)]
        # Two blanks belong to each column, as in the tables of other commands.
        fit = fitted(widths, [*map(len, page.headings)], self.size.width - 2)
        for cells in rows.values():
            for cell, width in zip(cells[:-1], fit, strict=False):
                cell.truncate(width, overflow="ellipsis")
        return rows

    def _tell(self, sentence: str) -> None:
        self._is_away = False
        self.query_one("#news", Label).update(Text(one_line(sentence)))

    def _table(self) -> DataTable[Text]:
        return self.query_one(DataTable)

    def _key(self) -> str:
        """The name of what the cursor is on; empty: nothing."""
        table = self._table()
        if not table.is_valid_row_index(table.cursor_row):
            return ""
        return str(table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value)

    def _chosen(self, *views: str, hint: str = "choose a job first: 3 shows jobs, 5 failed ones") -> str:
        """The name of what the cursor is on in one of these views; empty, and said so, if it is on none."""
        name = self._key() if self._view in views else ""
        if not name:
            self._tell(hint)
        return name

    # -- keys ---------------------------------------------------------------------------------------------------------

    def action_view(self, view: str) -> None:
        """Show another view."""
        self._view = view
        self._look_now.set()

    def action_suspend(self) -> None:
        """Suspend the queue of this row, or resume it."""
        if queue := self._chosen("queues", hint="choose a queue first: 1 shows queues"):
            self.run_worker(self._act(self._views.suspend, queue))

    def action_requeue(self) -> None:
        """Requeue the job of this row, or once that is confirmed all that failed alike."""
        if self._view == "failures" and self._key():
            self.run_worker(self._ask_first("Requeue", self._views.requeue_failures))
        elif name := self._chosen(*OF_JOBS):
            self.run_worker(self._act(self._views.requeue, name))

    def action_drop(self) -> None:
        """Delete all jobs that failed alike, once that is confirmed."""
        if self._chosen("failures", hint="choose failures first: 4 shows them"):
            self.run_worker(self._ask_first("Delete", self._views.drop_failures))

    def action_restart(self) -> None:
        """Restart the group of this row's worker, once that is confirmed."""
        if name := self._chosen("workers", hint="choose a worker first: 2 shows workers"):
            self.run_worker(self._restart(name))

    def action_cancel(self) -> None:
        """Cancel the job of this row, once that is confirmed."""
        if name := self._chosen(*OF_JOBS):
            self.run_worker(self._cancel(name))

    def on_data_table_row_selected(self) -> None:
        """Enter: show all about the job of this row."""
        if self._view in (*OF_JOBS, "failures") and (name := self._key()):
            self.run_worker(self._open(name))

    async def _cancel(self, name: str) -> None:
        if await self.push_screen_wait(TextPage(f"Cancel {name}? y/n")):
            await self._act(self._views.cancel, name)

    async def _ask_first(self, verb: str, what: Callable[[str], str]) -> None:
        """Do something with all jobs that failed as those of this row, if the answer is yes."""
        key = self._key()
        jobs, task, error, *_ = self._rows[key]
        question = f"{verb} {jobs:,} failed jobs of {task}?\n{error}\n\ny/n"
        if await self.push_screen_wait(TextPage(question)):
            await self._act(what, key)

    async def _restart(self, worker: str) -> None:
        group = self._views.group(worker)
        question = f"Restart group {group} of this host? Its running jobs end in the old processes.\n\ny/n"
        if not await self.push_screen_wait(TextPage(question)):
            return
        self._tell(f"{group} restarts")
        try:
            # The daemon answers once the new processes have loaded their code: the looks go on meanwhile.
            self._tell(await asyncio.to_thread(self._views.restart, worker))
        except FusionError as error:
            self._tell(str(error))

    async def _open(self, name: str) -> None:
        if (text := await self._ask(self._views.job, name)) is not None:
            await self.push_screen_wait(TextPage(text))

    async def _act(self, what: Callable[[str], str], name: str) -> None:
        if (said := await self._ask(what, name)) is not None:
            self._tell(said)
            self._look_now.set()


def _cell(value: object) -> Text:
    """Text that cannot steer the terminal; the name of a state in its colour."""
    text = "" if value is None else f"{value:,}" if isinstance(value, int) else one_line(str(value))
    return Text(text, style=colour_of_state(text), no_wrap=True, justify="right" if isinstance(value, int) else "left")
