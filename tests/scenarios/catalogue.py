"""Every scenario by name: what acts, a script or a function; its webhooks and policies."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from tests.scenarios.scene import Hook, Policy, Scene

_MODULES = ("across_objects", "at_once", "in_code", "scripts")
_known: dict[str, "Scenario"] = {}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One recording to be."""

    name: str
    act: Callable[[Scene], None]
    hooks: tuple[Hook, ...]
    policies: tuple[Policy, ...] = ()
    before: Callable[[Scene], None] | None = None
    """What happens before there is any webhook, genguard's included."""


def scenario(*hooks: Hook) -> Callable[[Callable[[Scene], None]], Callable[[Scene], None]]:
    """Enters a function into the catalogue; its name with dashes is the recording's."""

    def take(act: Callable[[Scene], None]) -> Callable[[Scene], None]:
        enter(Scenario(act.__name__.replace("_", "-"), act, hooks))
        return act

    return take


def enter(made: Scenario) -> None:
    """Each name is there once."""
    assert made.name not in _known, made.name
    _known[made.name] = made


def catalogue() -> dict[str, Scenario]:
    """All of them, in the order of their modules."""
    for module in _MODULES:
        import_module(f"tests.scenarios.{module}")
    return dict(_known)
