"""genguard as a library: predict generation, evaluate status, lint webhook configurations.

    from genguard import evaluate, lint, predict

`genguard.testing` has a fake API server for the tests of controllers. What is imported from here
and from `genguard.testing` stays as it is within a major version; its other packages do not.

Names are imported when they are first used: pytest imports this package in every run.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from genguard.generation import Cause, Prediction, predict
    from genguard.library import evaluate, lint
    from genguard.linting.check import Level, LintFinding
    from genguard.status.view import Health, Reason, StatusView

__all__ = [
    "Cause",
    "Health",
    "Level",
    "LintFinding",
    "Prediction",
    "Reason",
    "StatusView",
    "__version__",
    "evaluate",
    "lint",
    "predict",
]

__version__: Final = "0.1.0"

_MODULES: Final = {
    "genguard.generation": ("Cause", "Prediction", "predict"),
    "genguard.library": ("evaluate", "lint"),
    "genguard.linting.check": ("Level", "LintFinding"),
    "genguard.status.view": ("Health", "Reason", "StatusView"),
}


def __getattr__(name: str) -> Any:
    """Import what is asked for."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
