"""Finds the rule for a kind among the modules of this folder.

Each module has the rules of one kind or family. To add a kind, add a module with a `RULES` mapping,
and to evaluated.yaml what `genguard explain` says of the rule. Kinds are matched by group and kind:
Knative's Service is not the built-in Service.
"""

from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from genguard.status.kind_rule import KindRule
from genguard.status.kinds.generic import GENERIC

KINDS: Final[dict[tuple[str, str], KindRule]] = {}
"""Every (group, kind) that has a rule of its own, collected from the modules of this folder."""
for _module in iter_modules(__path__, prefix=f"{__name__}."):
    KINDS.update(import_module(_module.name).RULES)


def find_rule(group: str, kind: str) -> KindRule:
    """Return the rule of a kind; kinds without a rule of their own get GENERIC."""
    return KINDS.get((group, kind), GENERIC)
