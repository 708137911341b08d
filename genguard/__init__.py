"""genguard as a library: predict generation, evaluate status, lint webhook configurations.

    from genguard import evaluate, lint, predict

`genguard.testing` has a fake API server for the tests of controllers. What is imported from here
and from `genguard.testing` stays as it is within a major version; the packages of `webhook` do not.

Names are imported when they are first used: pytest imports this package in every run.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from genguard.judging import evaluate, lint
    from webhook import __version__
    from webhook.generation import Cause, Prediction, predict
    from webhook.lint.check import Level, LintFinding
    from webhook.status.view import Health, Reason, StatusView

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

_MODULES: Final = {
    "Cause": "webhook.generation",
    "Health": "webhook.status.view",
    "Level": "webhook.lint.check",
    "LintFinding": "webhook.lint.check",
    "Prediction": "webhook.generation",
    "Reason": "webhook.status.view",
    "StatusView": "webhook.status.view",
    "__version__": "webhook",
    "evaluate": "genguard.judging",
    "lint": "genguard.judging",
    "predict": "webhook.generation",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)
