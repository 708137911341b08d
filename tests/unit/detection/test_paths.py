"""Paths and pointers of leaves, made once, and what of them may stand in a shared store."""

from hashlib import blake2b

import pytest

from genguard.detection.changes import LONGEST_NAME, PathTree, salt


@pytest.mark.parametrize(
    ("path", "holds_time"),
    [
        (("status", "conditions", "type=Ready", "lastTransitionTime"), True),
        (("metadata", "creationTimestamp"), True),
        (("status", "time"), True),
        (("spec", "timeout"), False),
        (("status", "lastTransitionTime", "reason"), False),
        (("spec", 0), False),
        ((), False),
    ],
)
def test_a_name_that_ends_in_time_says_when(path, holds_time):
    assert (salt(path) == 0) is holds_time


def test_a_place_has_a_path_by_what_items_are_and_a_pointer_by_where_they_are():
    place = PathTree().root()["status"]["conditions"]["type", "Ready", 2]["a/b"]
    assert place.path == ("status", "conditions", "type=Ready", "a/b")
    assert place.pointer == "/status/conditions/2/a~1b"
    assert place.salt == salt(place.path)


def test_the_name_of_an_item_is_content_and_stands_in_no_path():
    one, other = (PathTree().root()["a"]["name", name, 0] for name in ("secret", "other"))
    assert one.path[1] == f"name#{blake2b(b'secret', digest_size=8).hexdigest()}"
    assert "secret" not in repr(one.path)
    assert one.path != other.path
    assert one.path == PathTree().root()["a"]["name", "secret", 9].path


def test_a_new_tree_is_begun_when_there_are_too_many_places(monkeypatch):
    monkeypatch.setattr("genguard.detection.changes.MOST_PLACES", 2)
    tree = PathTree()
    first = tree.root()
    _ = first["a"], first["b"]
    assert tree.root() is first
    _ = first["c"]
    again = tree.root()
    assert again is not first
    assert (again.path, again.pointer, tree.places) == ((), "", 0)
    assert again["a"].pointer == "/a"
    assert tree.places == 1


def test_a_long_name_of_a_field_is_cut_and_told_from_others_by_a_digest():
    long = "x" * (LONGEST_NAME + 1)
    root = PathTree().root()
    (name,) = root[long].path
    assert len(name) < LONGEST_NAME
    assert name != root[f"{long}y"].path[0]
    assert root["x" * LONGEST_NAME].path == ("x" * LONGEST_NAME,)
