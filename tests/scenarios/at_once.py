"""Scenarios of many writers at once, each in a thread of its own."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from tests.controlplane.client import ApiError
from tests.controlplane.webhook_listener import no_patch
from tests.scenarios import refusing
from tests.scenarios.catalogue import scenario
from tests.scenarios.scene import Hook, Json, Scene, Stored


@scenario()
def several_refused_at_once(scene: Scene) -> None:
    """Two users are refused for ever, each with a change of his own; a third one is not."""
    widget = scene.widget()

    def ask(number: int) -> None:
        for _ in range(10):
            with suppress(ApiError):
                widget.spec(("alice", "bob")[number], size=8 + number)
            scene.pause(0.3)

    with refusing.policy(scene, ["widgets"], "!has(object.spec.size) || object.spec.size < 5"):
        _together(2, ask)


@scenario()
def conflicts_tried_again(scene: Scene) -> None:
    widget = scene.widget()

    def count(number: int) -> None:
        for turn in range(10):
            mine = {f"writer-{number}": turn}
            widget.put(f"writer-{number}", lambda found, mine=mine: found["spec"].update(mine))

    _together(4, count)


@scenario()
def eight_writers_of_one_object(scene: Scene) -> None:
    widget = scene.widget()

    def write(number: int) -> None:
        for turn in range(10):
            widget.spec(f"writer-{number}", **{f"field{number}": turn})

    _together(8, write)


@scenario()
def stale_puts_tried_again(scene: Scene) -> None:
    widget = scene.widget()

    def write(number: int) -> None:
        for turn in range(8):
            mine = {f"field{number}": turn}
            widget.put(f"writer-{number}", lambda found, mine=mine: found["spec"].update(mine))
            widget.put_status(f"writer-{number}", lambda status, mine=mine: status.update(mine))

    _together(4, write)


_LOOKS_ON = Hook("looks-on", no_patch, ("widgets", "widgets/status"))
"""It is called for each write, and changes none."""


@scenario(_LOOKS_ON)
def forty_clients_of_one_user(scene: Scene) -> None:
    """Patches of one object at once: many have one key, and the API server tries some again."""
    widget = scene.widget()

    def write(number: int) -> None:
        mine = {f"client-{number % 20}": f"{number}"}
        _until_stored(widget, {"metadata": {"annotations": mine}})

    _together(40, write)


@scenario(replace(_LOOKS_ON, settings={"reinvocationPolicy": "IfNeeded"}))
def clients_of_one_user_patch_one_status(scene: Scene) -> None:
    """The same of status, each with a field of its own."""
    widget = scene.widget()

    def write(number: int) -> None:
        for turn in range(2):
            mine = {f"field{number}": turn}
            _until_stored(widget, {"status": mine}, "status")

    _together(24, write)


def _until_stored(widget: Stored, body: Json, subresource: str = "") -> None:
    """Again after a conflict: the API server gives up a PATCH after five tries, and a slow one."""
    while True:
        try:
            widget.patch("fleet", body, subresource)
        except ApiError as error:
            assert error.status in {409, 504}
        else:
            return


def _together(count: int, write: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=write, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
