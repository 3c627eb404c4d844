"""The rows of docs/file.md as the schema gives them: `python tests/file_reference.py` prints them."""

import json
from pathlib import Path

SCHEMA = json.loads((Path(__file__).parent.parent / "schemas" / "fusion.schema.json").read_text())
#: sections of the page: heading → where its keys are in the schema
SECTIONS = {
    "The top level": SCHEMA,
    "broker": SCHEMA["$defs"]["broker"],
    "broker.tls": SCHEMA["$defs"]["broker"]["properties"]["tls"],
    "retry_policies": SCHEMA["$defs"]["retry_policy"],
    "queues": SCHEMA["$defs"]["queue"],
    "tasks": SCHEMA["$defs"]["task"],
    "timeout": SCHEMA["$defs"]["timeout"],
    "cron": SCHEMA["$defs"]["cron_entry"],
    "workers": SCHEMA["$defs"]["worker_group"],
    "defaults": SCHEMA["$defs"]["defaults"],
    "control": SCHEMA["$defs"]["control"],
    "logging": SCHEMA["$defs"]["logging"],
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
    """One row for each key: key, default, example, meaning."""
    schema = SECTIONS[section]
    either = {key for branch in schema.get("oneOf", ()) for key in branch["required"]}
    for key, described in schema["properties"].items():
        required = key in schema.get("required", ()) or key in either
        default = "required" if key in schema.get("required", ()) else "one of the two" if required else None
        default = default or f"`{flow(described['default'])}`"
        # A map among other types is a snippet: as an example, editors would offer it as `[object Object]`.
        snippets = [snippet["body"] for snippet in described.get("defaultSnippets", ())]
        shown = [*described["examples"][: 2 - len(snippets)], *snippets]
        examples = " ".join(f"`{flow(example)}`" for example in shown)
        yield f"| `{key}` | {default} | {examples} | {described['description']} |".replace("||", "\\|")


if __name__ == "__main__":
    for name in SECTIONS:
        print(f"## {name}\n\n| key | default | example | is |\n|---|---|---|---|")
        print("\n".join(rows(name)), end="\n\n")
