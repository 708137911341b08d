"""KEP-5067's upgrade and rollback, step by step, with the stored pods carried across.

API servers: 1.30, which gives pods no generation, is built from source. 1.34, whose gate can be
switched off, is 1.36 that emulates it. 1.36 itself, where the gate is
locked, comes last. What is said of a real kubelet is in kubelet.py.
"""

import pytest

from tests.controlplane.client import Client, wait_until
from tests.controlplane.plane import ControlPlane
from tests.versions.kubelet import Kubelet
from tests.versions.upgrade import Upgrade, options

pytestmark = pytest.mark.timeout(600)

GATE = "PodObservedGenerationTracking"
OLD = options(minor="1.30")
ON = options(emulated_version="1.34")
OFF = options(emulated_version="1.34", feature_gates={GATE: False})
NEW = options()
MISMATCH = "generation-mismatch"
CLEARED = "observed-generation-cleared"
FOREIGN = "foreign-status-writer"


def test_every_step_of_the_upgrade_and_of_the_rollback_is_examined_right() -> None:
    old, new = Kubelet("old", gate=None), Kubelet("new", gate=True)
    with ControlPlane(OLD) as plane, Upgrade(plane) as story:
        a = plane.client
        with story.step("1: a pod, with an old API server and an old node"):
            story.add(old, "v1.30.14")
            story.create("first", old)
            story.create("mixed", old)
            story.act()
            story.shows({"first": (None, None), "mixed": (None, None)})
            story.is_right()
        with plane.second_apiserver(ON) as b:
            both_serve(story, a, b)
            with story.step("2: the API server is upgraded"):
                plane.crash("kube-apiserver")
                story.api = b
            upgraded(story, old, new)
            with story.step("the gate is off in one of two API servers"):
                plane.replace("kube-apiserver", OFF)
                story.update("second", 4, api=a)
                story.create("third", new, api=a)
                story.act("second", api=a)
                story.shows({"second": (4, 4)}, api=a)
                # It writes the number again and again, and this API server drops it.
                story.act("third", api=a, settles=False)
                story.shows({"third": (1, None)}, api=a)
                story.act()
                story.shows({"second": (4, 4), "third": (1, 1)})
                story.is_right()
        gate_off(story, a, new)
        node_rolled_back(story, new)
        with plane.second_apiserver(OLD) as b:
            rolled_back(story, a, b)
        with story.step("API server and nodes are upgraded again"):
            plane.replace("kube-apiserver", NEW)
            story.api = a
            story.lead_genguard_to(a, counts=True)
            old.gate = new.gate = True
            story.update("second", 8)
            story.update("mixed", 6)
            story.act()
            found = {"first": (1, 1), "mixed": (3, 3), "third": (1, 1)}
            story.shows({**found, "second": (7, 7), "between": (1, 1)})
            assert story.clear("second") == 7
            story.is_right()
        is_told(story)


def both_serve(story: Upgrade, a: Client, b: Client) -> None:
    """Two API servers at once: what the old one stores has no generation."""
    with story.step("2, half of it: genguard knows the old one"):
        story.update("mixed", 2, api=b)
        story.update("mixed", 3, api=a)
        story.act(api=a)
        story.shows({"mixed": (1, None)}, api=b)
        story.is_right(but=["patch mixed: 0 predicted, 1 stored"])
    with story.step("2, half of it: genguard knows the new one"):
        story.lead_genguard_to(b, counts=True)
        story.update("mixed", 4, api=a)
        story.update("mixed", 5, api=b)
        story.act(api=b)
        story.shows({"mixed": (2, None)}, api=b)
        story.is_right(but=["patch mixed: 2 predicted, 1 stored"])


def upgraded(story: Upgrade, old: Kubelet, new: Kubelet) -> None:
    """The steps of the KEP, from the third on; the numbers are its own."""
    with story.step("3: an update of the running pod"):
        story.update("first", 2)
        story.act()
        story.shows({"first": (1, None)})
        story.is_right()
    with story.step("4: a new pod"):
        story.create("late", old)
        story.act()
        story.shows({"late": (1, None)})
        story.is_right()
    with story.step("5 and 6: a second pod, on an upgraded node"):
        story.add(new, "v1.34.0")
        story.create("second", new)
        story.act()
        story.shows({"second": (1, 1)})
        story.is_right()
    with story.step("7: its kubelet starts again with the gate off"):
        new.gate = False
        assert story.act() == 0
    with story.step("8: an update of the second pod; and a pod that is new meanwhile"):
        story.update("second", 2)
        story.create("between", new)
        story.act()
        story.shows({"second": (2, 2), "between": (1, None)})
        story.is_right()
    with story.step("9: its kubelet starts again with the gate on"):
        new.gate = True
        story.act()
        story.shows({"between": (1, 1)})
        story.is_right()
    with story.step("10: an update of the second pod"):
        story.update("second", 3)
        story.act()
        story.shows({"second": (3, 3)})
        story.is_right()
    with story.step("a client clears the number"):
        assert story.clear("second") == 3
        story.is_right()


def gate_off(story: Upgrade, a: Client, new: Kubelet) -> None:
    """The gate is off in every API server, and numbers are stored from before."""
    with story.step("the gate is off in every API server"):
        story.api = a
        story.lead_genguard_to(a, counts=True)
        story.update("second", 5)
        story.act()
        story.shows({"second": (5, 5), "third": (1, 1)})
        assert story.clear("second") == 5
        story.is_right()


def node_rolled_back(story: Upgrade, new: Kubelet) -> None:
    """Nodes come before API servers. Nobody observes a pod there any more, and that is said."""
    with story.step("the node is rolled back"):
        new.gate = None
        assert story.act() == 0
        story.is_right()
        story.update("second", 6)
        story.act()
        story.shows({"second": (6, 5)})
        behind = "status.observedGeneration 5, want 6"
        story.is_right(unsettled={"second": (behind,)})


def rolled_back(story: Upgrade, a: Client, b: Client) -> None:
    """The old API server keeps the generation where it is, and drops what it does not know."""
    with story.step("API servers are rolled back; genguard knows the new one"):
        story.update("second", 7, api=b)
        story.act(api=b)
        story.shows({"second": (6, None)}, api=a)
        story.is_right(but=["patch second: 7 predicted, 6 stored"])
    with story.step("every API server is rolled back"):
        story.plane.crash("kube-apiserver")
        story.api = b
        story.lead_genguard_to(b, counts=False)
        story.update("late", 2)
        story.delete("late")
        story.act()
        story.shows({"late": (2, None), "second": (6, None), "third": (1, None)})
        waits = "it waits for old to stop its containers"
        leaving = f"metadata.deletionTimestamp set, want absent: {waits}"
        story.is_right(unsettled={"late": (leaving,)})
        story.end("late")


def is_told(story: Upgrade) -> None:
    """The findings of the whole way."""
    # Nothing is said of another pod, and only what is done three times is more than a remark.
    expected = {
        (MISMATCH, "mixed"), (MISMATCH, "second"), (CLEARED, "second"), (FOREIGN, "second")
    }  # fmt: skip
    found = wait_until(lambda: expected <= story.findings().keys() and story.findings())
    assert found.keys() == expected, found.keys()
    for name, stored in {"mixed": 1, "second": 6}.items():
        mismatch, told = found[MISMATCH, name], f"generation {stored} where {stored + 1}"
        older = "an API server before 1.33 does not count it"
        assert mismatch["message"] == f"{told} was predicted; {older}"
        assert mismatch["severity"] == "info"
    (actor,) = found[CLEARED, "second"]["actors"]
    assert (actor["name"], actor["confidence"]) == ("old-controller", "certain")
    assert found[CLEARED, "second"]["count"] == 3
