"""
Every rule of the file, with examples: docs/rules.md is made of this table, and the tests run each example.

A rule's code and severity stand once more where the rule is checked; tests/config/test_rules.py compares the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.rules import imports, machine, meaning, schedules, structure, yaml

if TYPE_CHECKING:
    from tests.rules.rule import Rule

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
