"""
Every rule of the file, in one table: docs/rules.md is made of it, and so is the head of a SARIF report.

A rule's code is written once more, where it is checked; tests/test_config_rules.py holds the two together.
Loaded only when somebody asks for the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fusiond.config.rules import imports, machine, meaning, schedules, structure, yaml

if TYPE_CHECKING:
    from fusiond.config.rules.rule import Rule

#: what the parts are about, for headings
PARTS: Final[dict[str, tuple[Rule, ...]]] = {
    "YAML": yaml.RULES,
    "Structure and values": structure.RULES,
    "Meaning": meaning.RULES,
    "Schedules": schedules.RULES,
    "This machine": machine.RULES,
    "`--imports`": imports.RULES,
}
RULES: Final[dict[str, Rule]] = {rule.code: rule for rules in PARTS.values() for rule in rules}
