"""The event loops that a server may run on, and how a test chooses one for a process."""

from pathlib import Path

EVENT_LOOPS = ("asyncio", "uvloop")


def environment(loop: str) -> dict[str, str]:
    """The variables of a process that runs on this event loop.

    A server uses uvloop if it can import it. Without uvloop it finds a module of this name that
    cannot be imported, as where it is not installed.
    """
    hidden = Path(__file__).parent / "without_uvloop"
    return {"PYTHONPATH": str(hidden)} if loop == "asyncio" else {}
