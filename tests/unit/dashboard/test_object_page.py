"""The tree that an object stands in, of what is tracked."""

from msgspec.structs import replace

from genguard.status.counts import ResourceKind
from genguard.status.tracking import Tracking
from tests.dashboard.crowd import state
from tests.unit.status.story import put
from webhook.dashboard.object_page import MOST_CHILDREN, MOST_NODES, tree
from webhook.dashboard.page import PageQueue

NOW = 1_000.0
POD = ResourceKind("", "pods", "Pod")


def tracking(**owners):
    found = Tracking()
    for number, (uid, owner) in enumerate(owners.items()):
        put(found, uid, POD, replace(state(number, "", NOW), name=uid, owner=owner))
    return found


async def drawn(found, uid):
    queue = PageQueue()
    try:
        return plainly(await tree(found, queue, uid, NOW))
    finally:
        queue.close()


def plainly(branch):
    if branch is None:
        return None
    below = [plainly(one) for one in branch.children]
    more = [f"+{branch.more_children}"] if branch.more_children else []
    return (branch.object.uid, *below, *more)


async def test_it_is_the_same_from_each_of_its_objects():
    found = tracking(top="", middle="top", leaf="middle", other="middle", alone="")
    expected = ("top", ("middle", ("leaf",), ("other",)))
    for uid in ("top", "middle", "leaf", "other"):
        assert await drawn(found, uid) == expected
    assert await drawn(found, "alone") == ("alone",)


async def test_an_owner_that_is_not_tracked_is_no_root():
    assert await drawn(tracking(leaf="gone"), "leaf") == ("leaf",)
    assert await drawn(tracking(), "nobody") is None


async def test_owners_in_a_circle_end_somewhere():
    assert await drawn(tracking(a="b", b="a"), "a") is not None
    assert await drawn(tracking(a="a"), "a") is not None


async def test_of_many_children_there_are_the_first_and_a_count():
    many = {f"pod-{number}": "top" for number in range(MOST_CHILDREN + 7)}
    found = await drawn(tracking(top="", **many), "top")
    assert (len(found), found[-1]) == (MOST_CHILDREN + 2, "+7")


async def test_a_tree_of_trees_has_room_for_so_many():
    owners = {"top": ""}
    for middle in range(40):
        owners[f"m-{middle}"] = "top"
        owners |= {f"l-{middle}-{leaf}": f"m-{middle}" for leaf in range(40)}
    found = await drawn(tracking(**owners), "top")
    assert nodes(found) <= MOST_NODES


def nodes(branch):
    return 1 + sum(nodes(one) for one in branch[1:] if isinstance(one, tuple))
