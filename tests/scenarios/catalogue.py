"""Every scenario by name: a function that acts, and the webhooks and policies meanwhile."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from tests.scenarios.scene import Hook, Policy, Scene

_MODULES = (
    "loops_by_webhooks",
    "loops_by_policies",
    "loops_by_writers",
    "loops_of_one_writer",
    "loops_of_generation",
    "loops_of_metadata",
    "loops_across_objects",
    "loops_of_lives",
    "observers",
    "quiet_workloads",
    "quiet_writers",
    "quiet_of_one_writer",
    "quiet_controllers",
    "quiet_webhooks",
    "quiet_metadata",
    "quiet_across_objects",
    "quiet_lives",
)
_known: dict[str, "Scenario"] = {}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One recording to be."""

    name: str
    act: Callable[[Scene], None]
    hooks: tuple[Hook, ...]
    policies: tuple[Policy, ...]
    before: Callable[[Scene], None] | None = None
    """What happens before there is any webhook, genguard's included."""


def scenario(
    *others: Hook | Policy, before: Callable[[Scene], None] | None = None
) -> Callable[[Callable[[Scene], None]], Callable[[Scene], None]]:
    """Enters a function into the catalogue; its name with dashes is the recording's."""

    def enter(act: Callable[[Scene], None]) -> Callable[[Scene], None]:
        name = act.__name__.replace("_", "-")
        assert name not in _known, name
        hooks = tuple(one for one in others if isinstance(one, Hook))
        policies = tuple(one for one in others if isinstance(one, Policy))
        _known[name] = Scenario(name, act, hooks, policies, before)
        return act

    return enter


def catalogue() -> dict[str, Scenario]:
    """All of them, in the order of their modules."""
    for module in _MODULES:
        import_module(f"tests.scenarios.{module}")
    return dict(_known)
