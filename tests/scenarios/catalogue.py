"""Every scenario by name: a function that acts, and the other webhooks that are there meanwhile."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from tests.scenarios.scene import Hook, Scene

_MODULES = (
    "loops_by_webhooks",
    "loops_by_writers",
    "loops_of_generation",
    "quiet_workloads",
    "quiet_writers",
    "quiet_controllers",
    "quiet_webhooks",
)
_known: dict[str, "Scenario"] = {}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One recording to be."""

    name: str
    act: Callable[[Scene], None]
    hooks: tuple[Hook, ...]


def scenario(*hooks: Hook) -> Callable[[Callable[[Scene], None]], Callable[[Scene], None]]:
    """Enters a function into the catalogue; its name with dashes is the recording's."""

    def enter(act: Callable[[Scene], None]) -> Callable[[Scene], None]:
        name = act.__name__.replace("_", "-")
        assert name not in _known, name
        _known[name] = Scenario(name, act, hooks)
        return act

    return enter


def catalogue() -> dict[str, Scenario]:
    """All of them, in the order of their modules."""
    for module in _MODULES:
        import_module(f"tests.scenarios.{module}")
    return dict(_known)
