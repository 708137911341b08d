"""What a lint check is, what it gets and what it reports."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from genguard.linting.hook import Hook, Target
from genguard.shipped import shipped


class Level(StrEnum):
    """How bad a problem is: an error will break a cluster, a warning may; the worst first."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return list(Level).index(self)


class LintFinding(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename="camel",
    tag="lint",
    tag_field="type",
):
    """One problem, as `genguard lint` prints it. It has either a webhook or a definition."""

    id: str
    severity: Level
    webhook: str = ""
    """`configuration/webhook`."""
    definition: str = ""
    """The name of a CustomResourceDefinition: `widgets.example.org`."""
    field: str
    """The path of the field inside the configuration or the definition."""
    message: str
    reason: str

    @property
    def subject(self) -> str:
        """The name of what has the problem: `configuration/webhook`, or that of a definition."""
        return self.webhook or self.definition


@dataclass(frozen=True, slots=True)
class LintContext:
    """Everything that is linted together: a check may compare webhooks with each other."""

    hooks: tuple[Hook, ...]
    services: Mapping[tuple[str, str], Mapping[str, Any]]
    """The spec of each Service, by namespace and name."""
    at: datetime
    live: bool
    """Whether the configurations come from a cluster and not from a file."""

    @property
    def mutating(self) -> list[Hook]:
        """The mutating webhooks in the order in which the API server calls them."""
        return sorted((hook for hook in self.hooks if hook.mutates), key=lambda hook: hook.order)


class Problem(NamedTuple):
    """What a check found in one field of a webhook or of a definition.

    field   the whole path, as Hook.field() or DefinedVersion.field() returns it
    said    the name of what checks.yaml says of it: what is wrong, and what to do
    values  fill in the names in that text
    """

    level: Level
    field: str
    said: str
    values: Mapping[str, object] = MappingProxyType({})


class Declared(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What checks.yaml has of a check."""

    reason: str
    says: dict[str, str]
    targets: tuple[Target, ...] = ()


class Check(NamedTuple):
    """One check.

    find_problems   called with a webhook and the LintContext, or with a DefinedVersion alone
    of_definitions  it gets each served version of each CustomResourceDefinition
    """

    id: str
    find_problems: Callable[..., Iterator[Problem]]
    of_definitions: bool = False

    @property
    def declared(self) -> Declared:
        """What the table says of it."""
        return shipped("genguard.linting", "checks.yaml", dict[str, Declared])[self.id]

    @property
    def reason(self) -> str:
        """Why it matters, with the source."""
        return self.declared.reason

    def message(self, problem: Problem) -> str:
        """Say what is wrong, and what to do."""
        return self.declared.says[problem.said].format(**problem.values)


def webhook_check(find: Callable[..., Iterator[Problem]]) -> Check:
    """Make a check of webhooks from a function; `order_of_numbers` is order-of-numbers."""
    return Check(find.__name__.replace("_", "-"), find)


def definition_check(find: Callable[..., Iterator[Problem]]) -> Check:
    """Make a check of CustomResourceDefinitions from a function, as webhook_check does."""
    return webhook_check(find)._replace(of_definitions=True)
