"""For the tests of controllers: a fake API server that counts generation, and assertions.

    from genguard.testing import FakeApiServer, assert_converges, assert_no_loop

    with FakeApiServer("crds.yaml") as server:
        server.create(backup)
        assert_converges(server, "backups.example.org", "nightly", step=lambda: reconcile(client))
        assert_no_loop(server)

pytest has the fixture `fake_api_server` where genguard is installed: genguard.testing.plugin.
Names are imported when they are first used: pytest imports this package in every run.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from genguard.testing.asserting import (
        LoopError,
        NotConvergedError,
        Recording,
        assert_converges,
        assert_no_loop,
        assert_quiet,
        find_loops,
    )
    from genguard.testing.fake import Definition, FakeApiServer
    from genguard.testing.refusals import RequestRefusedError
    from genguard.testing.strategies import objects_of
    from genguard.testing.webhooks import MutatingWebhook, every_order
    from genguard.testing.writes import Write

__all__ = [
    "Definition",
    "FakeApiServer",
    "LoopError",
    "MutatingWebhook",
    "NotConvergedError",
    "Recording",
    "RequestRefusedError",
    "Write",
    "assert_converges",
    "assert_no_loop",
    "assert_quiet",
    "every_order",
    "find_loops",
    "objects_of",
]

_MODULES: Final = {
    "Definition": "fake",
    "FakeApiServer": "fake",
    "LoopError": "asserting",
    "MutatingWebhook": "webhooks",
    "NotConvergedError": "asserting",
    "Recording": "asserting",
    "RequestRefusedError": "refusals",
    "Write": "writes",
    "assert_converges": "asserting",
    "assert_no_loop": "asserting",
    "assert_quiet": "asserting",
    "every_order": "webhooks",
    "objects_of": "strategies",
    "find_loops": "asserting",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
