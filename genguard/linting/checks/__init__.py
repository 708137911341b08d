"""The lint checks, by theme. CHECKS has all of them, in the order of the rules in SARIF."""

from typing import Final

from genguard.linting.check import Check
from genguard.linting.checks import definitions, endpoint, failure, order, scope

CHECKS: Final = tuple(
    var
    for theme in (scope, endpoint, failure, order, definitions)
    for var in vars(theme).values()
    if isinstance(var, Check)
)
