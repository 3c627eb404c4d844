"""
What the model says of each key, for readers: `python -m tests.file_reference` writes both.

1. schemas/fusion.schema.json
2. the tables of docs/file/, each on the page that has its heading
"""

import json
import re
from pathlib import Path

from fusiond.config import model
from fusiond.config.fields import in_place
from tests import file_schema

ROOT = Path(__file__).parent.parent
SCHEMA_FILE, PAGES = ROOT / "schemas" / "fusion.schema.json", ROOT / "docs" / "file"
SCHEMA = file_schema.schema()


def below(schema, *path):
    """What the schema says at the end of a path of keys; `*` is any name."""
    for key in path:
        schema = schema["properties"][key] if key != "*" else schema.get("items") or schema["additionalProperties"]
    return schema


#: heading of a table → where its keys are in the file
SECTIONS = {
    "The top level": (),
    "broker": ("broker",),
    "tls": ("broker", "tls"),
    "retry_policies": ("retry_policies", "*"),
    "queues": ("queues", "*"),
    "rate_limit": ("queues", "*", "rate_limit"),
    "tasks": ("tasks", "*"),
    "timeout": ("tasks", "*", "timeout"),
    "parameters": ("tasks", "*", "parameters", "*"),
    "exit_status": ("tasks", "*", "exit_status"),
    "unique": ("tasks", "*", "unique"),
    "on_success and on_failure": ("tasks", "*", "on_failure"),
    "limit": ("tasks", "*", "limit"),
    "pools": ("pools", "*"),
    "unknown_tasks": ("unknown_tasks",),
    "policies": ("policies", "*"),
    "flows": ("flows", "*"),
    "steps": ("flows", "*", "steps", "*"),
    "cron": ("cron", "*"),
    "calendars": ("calendars", "*"),
    "workers": ("workers", "*"),
    "processes": ("workers", "*", "processes"),
    "defaults": ("defaults",),
    "control": ("control",),
    "logging": ("logging",),
    "events": ("events",),
    "sinks": ("events", "sinks", "*"),
    "outboxes": ("outboxes", "*"),
    "job_output": ("job_output",),
    "webhooks": ("webhooks",),
    "web": ("web",),
    "roles": ("web", "roles", "*"),
    "tokens": ("web", "tokens", "*"),
}


def flow(value):
    """A value as one would write it in the file, on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, str):
        needs_quotes = value[:1] in "*@%" or value.isdigit() or " * " in value
        return json.dumps(value) if needs_quotes else value
    return json.dumps(value)


def rows(section):
    """One row for each key: key, default, example, of a group what a change of it does, meaning."""
    schema = below(SCHEMA, *SECTIONS[section])
    groups = [schema, *schema.get("allOf", ())]
    either = {key for group in groups for branch in group.get("oneOf", ()) for key in branch.get("required", ())}
    for key, described in schema["properties"].items():
        required = key in schema.get("required", ()) or key in either
        default = "required" if key in schema.get("required", ()) else "one of two" if required else None
        default = default or f"`{flow(described.get('default'))}`"
        # A map among other types is a snippet: as an example, editors would offer it as `[object Object]`.
        snippets = [snippet["body"] for snippet in described.get("defaultSnippets", ())]
        others = [example for example in described["examples"] if example != described.get("default")]
        examples = " ".join(f"`{flow(example)}`" for example in [*others[: 2 - len(snippets)], *snippets])
        change = ""
        if section == "workers":
            change = f" {'in place' if in_place(model.WorkerGroup, key) else 'replaced'} |"
        name, own_page = f"`{key}`", f"{key.replace('_', '-')}.md"
        if not SECTIONS[section] and (PAGES / own_page).exists():
            name, examples = f"[{name}]({own_page})", ""  # that page begins with one
        yield f"| {name} | {default} | {examples} |{change} {described['description']} |".replace("||", "\\|")


def pages():
    """Each page with its tables as the model gives them: path → text."""
    texts = {path: path.read_text() for path in sorted(PAGES.glob("*.md"))}
    for section in SECTIONS:
        table = re.compile(rf"(^#+ {re.escape(section)}\n(?:(?!#).*\n)*?\|---.+\n)(?:\|.+\n)*", re.MULTILINE)
        (path,) = (path for path, text in texts.items() if table.search(text))
        texts[path] = table.sub(lambda found, of=section: found[1] + "\n".join(rows(of)) + "\n", texts[path])
    return texts


if __name__ == "__main__":
    SCHEMA_FILE.write_text(file_schema.text())
    for path, text in pages().items():
        path.write_text(text)
