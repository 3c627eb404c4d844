"""
Walk through every page of the dashboard in a real Chromium: `python -m tests.web.look [DIRECTORY [PICTURES]]`.

1. start    two daemons with different files over one Redis, and jobs that succeed, fail, wait and run on
2. use      the link that logs in, the keyboard, a button, a page that changes by itself, a browser without scripts
3. walk     over each page at 1440, 1024 and 390 pixels, light and dark, and once more with everything opened
4. check    the page's policy refuses nothing, no script fails, nothing is wider than the window, axe finds nothing,
            text can be read in both schemes, each control has a name, each table has headings, each page has one title
5. keep     a picture of each page in the directory, `look/` unless it is named; in PICTURES those of the docs

It needs Debian's package `chromium` (or CHROMIUM names another browser) and `pip install playwright`, and has axe of
axe-playwright-python; `make web-look` installs both. Without axe it says so, and checks the rest. What fails is tried
once more. The exit status is 4 if a check has failed twice; 3 if the browser does not start, or crashes twice: that
says nothing of the dashboard. Any other but 0: this program has failed.
"""

import contextlib
import os
import sqlite3
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from playwright.sync_api import Error, TimeoutError, sync_playwright  # noqa: A004 - the name is theirs

from fusiond import paths
from fusiond.broker.call import as_is, plain
from fusiond.broker.verbs import Verbs
from fusiond.client import Client
from tests.support.outbox_tables import tables
from tests.support.running import Running, until

FILE = """
broker: {url: embedded}
web: {listen: "127.0.0.1:0", log_url: "https://logs.example.com/?q={job}"}
events: {}
job_output: {}
defaults: {tasks: {timeout: 60s, retry: none}, workers: {drain_timeout: 2s}}
queues: {mail: {max_length: 100000}, reports: {max_running: 2}, imports: {}, billing: {}}
tasks:
  send_welcome: {run: fusiond.tasks.echo, queue: mail, priority: high, log_tag: onboarding}
  newsletter: {run: fusiond.tasks.echo, queue: mail, priority: low, log_tag: campaign}
  monthly_report:
    command: [sh, -c, 'eval "$1"', sh, $(script)]
    parameters: {script: {pattern: "(?s).*"}}
    queue: reports
  resize_image: {run: fusiond.tasks.echo, queue: imports}
  charge_card:
    command: [sh, -c, 'eval "$1"', sh, $(script)]
    parameters: {script: {pattern: "(?s).*"}}
    queue: billing
    description: Charges a customer's card
flows:
  etl:
    queue: reports
    steps:
      extract: {task: newsletter, kwargs: {name: orders}}
      clean: {task: newsletter, after: [extract]}
      check: {task: newsletter, after: [extract]}
      load: {task: charge_card, after: [clean, check], kwargs: {script: "false"}}
      tell: {task: send_welcome, after: [load]}
cron:
  heartbeat: {task: newsletter, every: 5s, args: [still here]}
  nightly_report: {task: monthly_report, schedule: "30 2 * * 1-5", timezone: Europe/Berlin, kwargs: {script: date}}
  hourly_import: {task: resize_image, schedule: "0 * * * *", suspended: true}
workers:
  quick: {queues: {mail: 3, default: 1}, processes: 4, isolation: process}
  careful: {queues: [reports, billing], processes: 3}
"""
#: of a second daemon, whose file is another one
OTHER = """
tasks: {newsletter: {run: fusiond.tasks.echo, queue: mail, timeout: 5s}}
queues: {mail: {max_length: 100000}}
workers: {quick: {queues: [mail]}}
"""
PAGES = {
    "overview": "/",
    "jobs": "/jobs?limit=20",
    "jobs-failed": "/jobs?state=failed&text=region",
    "failures": "/failures",
    "queues": "/queues",
    "queue": "/queues/billing",
    "task": "/tasks/send_welcome?hours=168",
    "workers": "/workers",
    "cron": "/cron",
    "flows": "/flows",
    "limits": "/limits?queue=mail",
    "broken": "/broken",
    "outboxes": "/outboxes",
    "configuration": "/configuration",
    "plan": "/configuration/plan?later=1",
    "simulation": "/configuration/simulation?later=1",
    "difference": "/configuration/history/1",
    "explanation": "/configuration/tasks/send_welcome",
    "audit": "/audit",
}
#: the text of axe; empty: it is not installed
AXE = Path(found.origin).with_name("axe.min.js").read_text() if (found := find_spec("axe_playwright_python")) else ""
WIDTHS = (1440, 1024, 390)
SCHEMES = ("light", "dark")
#: pictures of docs/three-in-the-morning.md, on a phone
ANSWERS = {
    "attention": "/",
    "failed": "/failures",
    "running": "/jobs?state=started",
    "queues": "/queues",
    "statistics": "/tasks/send_welcome?hours=24",
    "audit": "/audit",
    "tonight": "/cron",
}
PHONE = {"width": 390, "height": 560}
#: ms that the browser may take for anything
PATIENCE = 60_000
#: statuses of requests that the walk means to fail
MEANT = {"/jobs?limit=many": 400}


def fill(client, database):
    """Jobs in every state, and rows of an outbox."""
    for number in range(40):
        client.enqueue("send_welcome", f"ada{number}@example.com", plan="pro", password="secret")
    for number in range(9):
        script = f"echo 'no such region: eu-{number}' >&2; exit 3"
        client.enqueue("monthly_report", script=script)
    for number in range(5):
        client.enqueue("charge_card", script=f"echo charging card {number}; echo timeout >&2; exit 75")
    for number in range(17):
        client.enqueue("resize_image", f"/srv/images/{number}.jpg", width=800)
    for number in range(4):
        client.options(delay="20m").enqueue("newsletter", edition=number)
    client.run_flow("etl")
    until(lambda: client.counts()["reports"].failed == 9 and client.counts()["billing"].failed == 6, "the failures")
    push(client, "mail", "{not JSON")
    insert(database, [("send_welcome", '["lovelace@example.com"]'), ("send_welcome", "[7]"), ("charge_cards", "[1]")])
    until(lambda: (said := client._connection.run(Verbs().outboxes()).get("shop")) and said.refused, "the refused row")
    for _ in range(2):
        client.enqueue("monthly_report", script="sleep 1000")
    until(lambda: client.counts()["reports"].started == 2, "the running ones")


def push(client, queue, body):
    """As a program without a library does."""
    client._connection.run(plain(as_is, "LPUSH", f"fusion:{{{queue}}}:inbox", body))


def insert(database, rows):
    """As an application does: task and arguments of each row, in one transaction."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.executescript(tables())
        connection.executemany("INSERT INTO fusion_outbox (task, args) VALUES (?, ?)", rows)
        connection.commit()


class Walk:
    """One walk, and what it has found."""

    def __init__(self, daemon, directory):
        self.daemon, self.directory = daemon, directory
        self.url = paths.web_url(daemon.runtime).read_text().strip()
        self.token = paths.web_token(daemon.state).read_text().strip()
        self.faults = []
        self._at = ""

    def note(self, fault):
        """Keep a fault, once."""
        if f"{self._at}: {fault}" not in self.faults:
            self.faults.append(f"{self._at}: {fault}")

    def expect(self, name, is_so):
        """A fault unless it is so."""
        if not is_so:
            self.note(name)

    @contextlib.contextmanager
    def tab(self, browser, **options) -> Iterator:
        """A fresh tab, logged in, in which everything that goes wrong is noted."""
        context = browser.new_context(**options)
        context.set_default_timeout(PATIENCE)
        context.add_init_script(REFUSALS)
        tab = context.new_page()
        tab.on("console", lambda line: line.type == "error" and self._hear(line.text))
        tab.on("pageerror", lambda error: self.note(f"a script failed: {error}"))
        tab.on("response", self._judge)
        yield tab
        context.close()

    def _hear(self, text):
        # What cannot be loaded is judged by its status.
        if not text.startswith("Failed to load resource"):
            self.note(text)

    def _judge(self, response):
        path = response.url.replace(self.url.rstrip("/"), "")
        if response.status >= 400 and MEANT.get(path) != response.status:
            self.note(f"{path} is {response.status}")

    def log_in(self, tab):
        """By the link that the daemon prints."""
        self._at = "login"
        tab.goto(f"{self.url}login#{self.token}")
        tab.wait_for_url(self.url)

    # -- use ----------------------------------------------------------------------------------------------------------

    def use(self, browser, client):
        """Things that people do."""
        with self.tab(browser, viewport={"width": 1280, "height": 900}) as tab:
            self.log_in(tab)
            self._go_by_keyboard(tab)
            self._press_a_button(tab)
            self._change_many_jobs(tab, client)
            self._use_keys(tab)
            self._see_a_change(tab, client)
        with self.tab(browser) as tab:
            self.log_in(tab)
            self._read_output(tab, client)
        with self.tab(browser, java_script_enabled=False) as tab:
            self._at = "without scripts"
            tab.goto(f"{self.url}login")
            tab.fill("input[name=token]", self.token)
            tab.click("button")
            tab.wait_for_url(self.url)
            tab.click("nav >> text=Jobs")
            self.expect("Jobs cannot be reached", tab.inner_text("h1") == "Jobs")

    def _go_by_keyboard(self, tab):
        """The first key leads past the navigation; then Tab goes through the page in the order of its text."""
        self._at = "keyboard"
        tab.goto(f"{self.url}jobs?queue=billing&state=failed")
        tab.keyboard.press("Tab")
        self.expect("the first Tab is not on the link past the navigation", tab.evaluate(FOCUSED) == "Skip to the page")
        box = tab.locator(":focus").bounding_box()
        self.expect("that link cannot be seen when it is focused", box["x"] >= 0 and box["y"] >= 0)
        wanted = tab.evaluate(ORDER)
        found = [tab.evaluate(NUMBER)]
        for _ in wanted[1:]:
            tab.keyboard.press("Tab")
            found.append(tab.evaluate(NUMBER))
        self.expect(f"Tab goes {found} and not {wanted}", found == wanted)
        self.expect("the focus cannot be seen", tab.evaluate(OUTLINED))
        tab.focus(".skip")
        tab.keyboard.press("Enter")
        tab.wait_for_function("document.activeElement.id === 'main'")

    def _press_a_button(self, tab):
        """Suspend a queue: a question first; what was done is said, and the button undoes it then."""
        self._at = "a button"
        tab.goto(f"{self.url}queues")
        row = tab.locator("tr", has_text="billing")
        row.locator("summary", has_text="Suspend").focus()
        tab.keyboard.press("Enter")
        row.locator("button", has_text="Suspend").click()
        tab.wait_for_selector("[role=status]:has-text('queue billing is suspended')")
        row.locator("button", has_text="Resume").click()
        tab.wait_for_selector("[role=status]:has-text('queue billing is resumed')")

    def _change_many_jobs(self, tab, client):
        """All that are ticked on a page: their number is asked for first, and both numbers are told then."""
        self._at = "many jobs"
        client.options(delay="20m").enqueue_many([("newsletter", (number,)) for number in (7, 8, 9)])
        tab.goto(f"{self.url}jobs?state=scheduled")
        tab.check("label:has-text('All on this page') input")
        self.expect("not each job is ticked", tab.locator("td input:not(:checked)").count() == 0)
        tab.uncheck("tbody tr:first-child input")
        wanted = tab.locator("td input:checked").count()
        tab.click("#selected >> text=Cancel")
        tab.wait_for_selector(f"h1:has-text('Cancel {wanted} jobs')")
        tab.evaluate(AXE)
        self._judge_look(tab, whole=True)
        tab.screenshot(path=str(self.directory / "confirm.png"), full_page=True)
        tab.click(f"button:has-text('Cancel {wanted} jobs')")
        tab.wait_for_selector(f"[role=status]:has-text('canceled {wanted} of {wanted} jobs')")
        self.expect("the filter is gone", "state=scheduled" in tab.url)

    def _use_keys(self, tab):
        """Escape closes a question; / goes to the search; a slider says the values of a chart; the colours are kept."""
        self._at = "keys"
        tab.goto(f"{self.url}queues")
        tab.locator("summary").first.click()
        tab.keyboard.press("Escape")
        self.expect("Escape does not close a question", tab.locator("details[open]").count() == 0)
        self.expect("the focus is lost", tab.evaluate(FOCUSED) == tab.locator("summary").first.inner_text())
        tab.goto(f"{self.url}jobs")
        tab.keyboard.press("/")
        tab.wait_for_function("document.activeElement.type === 'search' && document.activeElement.value === ''")
        tab.locator("time").first.click()
        self.expect("a time is not shown after a tap", tab.locator("time").first.inner_text().endswith("UTC"))
        tab.goto(f"{self.url}tasks/send_welcome?hours=6")
        tab.focus(".chart + input")
        tab.keyboard.press("Home")
        tab.wait_for_selector("output:has-text('finished')")
        for word in ("dark", "light", "auto"):
            tab.select_option("#theme", label=word)
            tab.reload()
            kept = tab.evaluate("document.documentElement.dataset.theme ?? 'auto'")
            self.expect(f"{word} is not kept, but {kept}", kept == word)

    def _see_a_change(self, tab, client):
        """A page that is open shows a new job, and does not close what was opened."""
        self._at = "live"
        tab.goto(f"{self.url}jobs?queue=imports&limit=500")
        tab.wait_for_selector("#live.on")
        tab.click("summary:has-text('Enqueue a job')")
        client.enqueue("resize_image", "/srv/images/new.jpg")
        tab.wait_for_selector("#jobs:has-text('new.jpg')")
        self.expect("what was opened is closed", tab.is_visible("label:has-text('Delay')"))
        tab.context.clear_cookies()
        tab.wait_for_selector("#live:not(.on):has-text('out of date')")

    def _read_output(self, tab, client):
        """What a running job prints comes by itself; the lines with a text are left, and all of them come back."""
        self._at = "output"
        script = r"printf 'charged \033[31m<b>one</b>\033[0m\nrefused two\n'; sleep 3; echo charged three; sleep 600"
        job = client.enqueue("charge_card", script=script)
        tab.goto(f"{self.url}jobs/{job.name}")
        lines = tab.locator("#output pre")
        tab.wait_for_selector("#output pre:has-text('charged <b>one</b>')")
        tab.wait_for_selector("#output pre:has-text('charged three')")
        tab.fill("#output input", "CHARGED")
        self.expect("lines without the text are left", "refused" not in lines.inner_text())
        tab.fill("#output input", "")
        self.expect("lines have not come back", "refused two" in lines.inner_text())
        tab.screenshot(path=str(self.directory / "output.png"), full_page=True)
        job.cancel()

    def illustrate(self, browser, client, directory):
        """The pictures of the docs."""
        directory.mkdir(parents=True, exist_ok=True)
        waits = client.enqueue("resize_image", "/srv/images/new.jpg", width=800)
        prints = client.enqueue("charge_card", script="for n in 1 2 3; do echo charged $n of 3; done; sleep 600")
        with self.tab(browser, viewport=PHONE) as tab:
            self.log_in(tab)
            for name, path in (ANSWERS | {"waits": f"/jobs/{waits.name}"}).items():
                tab.goto(self.url.rstrip("/") + path)
                tab.wait_for_selector("[data-load]", state="detached")
                tab.screenshot(path=str(directory / f"{name}.png"), animations="disabled")
            tab.goto(f"{self.url}jobs/{prints.name}")
            tab.wait_for_selector("#output pre:has-text('3 of 3')")
            tab.locator("#output").screenshot(path=str(directory / "output.png"))
        prints.cancel()

    # -- walk ---------------------------------------------------------------------------------------------------------

    def all(self, browser, pages):
        """Every page, in each width and scheme."""
        with self.tab(browser) as tab:
            self.log_in(tab)
            for title, path in pages.items():
                self._look(tab, title, path)

    def _look(self, tab, title, path):
        self._at = title
        tab.set_viewport_size({"width": WIDTHS[0], "height": 900})
        tab.goto(self.url.rstrip("/") + path, wait_until="load")
        tab.wait_for_selector("[data-load]", state="detached")
        for fault in tab.evaluate(STRUCTURE):
            self.note(fault)
        tab.evaluate(AXE)  # not as an element, which the policy of the page would refuse
        for scheme in SCHEMES:
            tab.emulate_media(color_scheme=scheme)
            dark = tab.evaluate("getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g)[0] < 128")
            self.expect(f"is not {scheme}", dark == (scheme == "dark"))
            for width in WIDTHS:
                self._at = f"{title}-{width}-{scheme}"
                tab.set_viewport_size({"width": width, "height": 900})
                self._judge_look(tab, whole=(width, scheme) == (WIDTHS[0], "dark"))
                tab.screenshot(path=str(self.directory / f"{self._at}.png"), full_page=True, animations="disabled")
        self._at = f"{title}, opened, {WIDTHS[-1]}"
        tab.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
        self._judge_look(tab)
        self.faults += [f"{title}: the policy has refused {each}" for each in tab.evaluate("refusals")]

    def _judge_look(self, tab, *, whole=False):
        wide = tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        self.expect(f"is {wide} pixels wider than the window", wide <= 0)
        for fault in tab.evaluate(PALE):
            self.note(fault)
        for fault in tab.evaluate(AXE_FAULTS, whole) if AXE else ():
            self.note(fault)


REFUSALS = """
window.refusals = []
const keep = (event) => refusals.push(event.violatedDirective + ' ' + event.blockedURI)
document.addEventListener('securitypolicyviolation', keep)
"""
FOCUSED = "() => document.activeElement.textContent.trim()"
_ORDER = """
  const shown = (each) => each.checkVisibility() && (!each.closest('details:not([open])') || each.matches('summary'))
  const all = [...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary')]
  const order = all.filter(shown)
"""
#: the numbers of the elements that take the focus, in the order of the text, and that of the one that has it
ORDER = f"() => {{ {_ORDER} return order.map((_, number) => number) }}"
NUMBER = f"() => {{ {_ORDER} return order.indexOf(document.activeElement) }}"
OUTLINED = "() => getComputedStyle(document.activeElement).outlineStyle !== 'none'"
#: what a screen reader could not tell
STRUCTURE = """() => {
  const found = [], all = (what) => [...document.querySelectorAll(what)]
  if (all('h1').length !== 1) found.push(`has ${all('h1').length} titles`)
  if (all('main').length !== 1) found.push('has no main part')
  if (!document.documentElement.lang) found.push('names no language')
  const name = (each) => each.textContent.trim() || each.labels?.length || each.getAttribute('aria-label')
  const controls = 'a, button, input:not([type=hidden]), select, textarea, summary'
  for (const each of all(controls + ', svg[role], meter, nav, [role=group]')) {
    if (!name(each)) found.push('has no name: ' + each.outerHTML.slice(0, 100))
  }
  for (const each of all('table')) {
    if (!each.querySelector('thead th')) found.push('has a table without headings')
    const columns = each.querySelectorAll('thead th').length
    for (const row of each.querySelectorAll('tbody tr')) {
      const cells = [...row.cells].reduce((sum, cell) => sum + cell.colSpan, 0)
      if (cells !== columns) found.push(`has a row of ${cells} cells below ${columns} headings`)
    }
  }
  const ids = all('[id]').map(each => each.id)
  for (const id of new Set(ids)) if (ids.filter(each => each === id).length > 1) found.push('has the id twice: ' + id)
  let before = 1
  for (const each of all('h1, h2, h3')) {
    const level = Number(each.tagName[1])
    if (level > before + 1) found.push('skips a level of headings at ' + each.textContent)
    before = level
  }
  return [...new Set(found)]
}"""
#: text with less contrast than WCAG 2 asks for, 4.5 to 1, and 3 to 1 where it is large
PALE = """() => {
  const bent = (value) => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
  const channel = (value) => bent(value / 255)
  const parts = (text) => text.match(/[0-9.]+/g).map(Number)
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b)
  const behind = (each) => {
    for (; each; each = each.parentElement) {
      const colour = parts(getComputedStyle(each).backgroundColor)
      if (colour.length === 3 || colour[3] > 0.99) return colour
    }
    return [255, 255, 255]
  }
  const found = new Set()
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (texts.nextNode()) {
    const each = texts.currentNode.parentElement
    if (!texts.currentNode.data.trim() || !each.checkVisibility() || each.closest('svg, .skip, script')) continue
    const style = getComputedStyle(each), one = light(parts(style.color)), other = light(behind(each))
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05)
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.6 && style.fontWeight >= 700)
    const text = texts.currentNode.data.trim().slice(0, 40)
    if (contrast < (large ? 3 : 4.5)) found.add(`is pale, ${contrast.toFixed(1)} to 1: ${text}`)
  }
  return [...found]
}"""
#: what axe finds: the rule, and where. Contrast takes it the longest
AXE_FAULTS = """async (all) => {
  const rules = { 'color-contrast': { enabled: all } }
  const { violations } = await axe.run({ resultTypes: ['violations'], elementRef: false, rules })
  return violations.flatMap(({ id, nodes }) => nodes.map((each) => `${id}: ${each.target} ${each.html.slice(0, 80)}`))
}"""


def walk(daemon, directory, client):
    """The faults, and how many pages there are. Raises Error of Playwright."""
    failed = client.failed("billing", limit=1)[0]
    run = next(each for each in client.failed("billing", limit=20) if each.task == "charge_card" and "." in each.id)
    of_run = f"/flows/reports/{run.id.partition('.')[0]}"
    pages = PAGES | {"flow": of_run, "job": f"/jobs/{failed.name}", "refusal": "/jobs?limit=many", "login": "/login"}
    found = Walk(daemon, directory)
    with sync_playwright() as playwright:
        program = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=program, args=arguments, timeout=PATIENCE)
        try:
            found.use(browser, client)
            if len(sys.argv) > 2:
                found.illustrate(browser, client, Path(sys.argv[2]))
            found.all(browser, pages)
            daemon.write(f"{FILE}  tiny: {{queues: [mial], procesess: 2, environment: {{PASSWORD: swordfish}}}}\n")
            until(lambda: (daemon.status()["reload"] or {}).get("result") == "refused", daemon.text)
            found.all(browser, {"refused": "/configuration", "refused-overview": "/"})
        except TimeoutError as error:
            found.note(f"waited in vain: {error}")
        browser.close()
    return found.faults, len(pages) + 2


def main():
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else "look")
    directory.mkdir(parents=True, exist_ok=True)
    if not AXE:
        print("no axe-playwright-python here: contrast and the like are not checked")
    for old in directory.glob("*.png"):
        old.unlink()
    daemon, other = Running(), Running()
    database = daemon.directory / "shop.db"
    daemon.added = f"outboxes: {{shop: {{url: 'sqlite:///{database}', tasks: [send_welcome]}}}}\n"
    try:
        daemon.start(FILE)
        until(paths.web_url(daemon.runtime).exists, daemon.text)
        other.start(f"broker: {{url: '{daemon.url}'}}\n{OTHER}")
        with Client(daemon.url) as client:
            fill(client, database)
            faults, pages = twice(daemon, directory, client)
    except Error as error:
        print(f"the browser cannot be used here: {error}")
        return 3
    finally:
        other.close()
        daemon.close()
    print("\n".join(faults) or f"no fault on {pages} pages; pictures in {directory}")
    return 4 if faults else 0


def twice(daemon, directory, client):
    """The walk, and if anything fails once more, whose outcome counts."""
    try:
        faults, pages = walk(daemon, directory, client)
    except Error as error:
        faults, pages = [str(error)], 0
    if faults:
        print("\n".join(["once more, as the first walk has found:", *faults]), flush=True)
        daemon.write(FILE)
        # Without a reload if the first walk has ended before its own.
        until(lambda: (daemon.status()["reload"] or {}).get("result") != "refused", daemon.text)
        return walk(daemon, directory, client)
    return faults, pages


if __name__ == "__main__":
    sys.exit(main())
