"""Files of objects read as kubectl reads them, and further than it where something is wrong."""

import io
import tracemalloc

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from genguard.formats.documents import (
    LongLine,
    ReadObject,
    Unreadable,
    bounded,
    load_document,
    read_documents,
)
from tests.cases_loader import table


def read(content):
    return list(read_documents(io.BytesIO(content)))


@table("documents/scalars.yaml", "text", "json")
def test_yaml_means_what_it_means_to_kubectl(case):
    if case["json"] is None:
        with pytest.raises((yaml.YAMLError, ValueError)):
            load_document(case["text"].encode())
    else:
        found = msgspec.json.encode(load_document(case["text"].encode())).decode()
        assert found == case["json"], case.because


@table("documents/streams.yaml", "text", "found")
def test_objects_of_a_file_in_their_order(case):
    found = [
        one.value if isinstance(one, ReadObject) else str(one)
        for one in read(case["text"].encode())
    ]
    assert found == case["found"], case.because
    assert repr(found) == repr(case["found"]), "1 is not 1.0"


KEYS = st.sampled_from(["", "a", "items", '{"', "\\", "---"])
LEAVES = st.sampled_from([None, True, 1, 1.0, 2**63, -0.5, "", "}", '"{[', "\n---\n", "é\u2028"])
VALUES = LEAVES | st.lists(LEAVES, max_size=2) | st.dictionaries(KEYS, LEAVES, max_size=2)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=3).filter(
    lambda value: not isinstance(value.get("items"), list)
)
WRITTEN = {
    "a line each": lambda values: b"\n".join(msgspec.json.encode(one) for one in values),
    "end to end": lambda values: b"".join(msgspec.json.encode(one) for one in values),
    "indented": lambda values: b"\n".join(
        msgspec.json.format(msgspec.json.encode(one), indent=2) for one in values
    ),
    "separated": lambda values: b"\n---\n".join(
        msgspec.json.format(msgspec.json.encode(one), indent=1) for one in values
    ),
    "a List": lambda values: msgspec.json.encode({"kind": "List", "items": values}),
}


@given(values=st.lists(OBJECTS, max_size=3), layout=st.sampled_from(list(WRITTEN)))
def test_what_is_written_is_read(values, layout):
    assert [one.value for one in read(WRITTEN[layout](values))] == values


@given(values=st.lists(OBJECTS, min_size=2, max_size=3), data=st.data())
def test_a_line_that_is_cut_short_takes_no_other_along(values, data):
    lines = [msgspec.json.encode(one) for one in values]
    bad = data.draw(st.integers(0, len(lines) - 1))
    cut = lines[bad][: data.draw(st.integers(1, len(lines[bad]) - 1))]
    found = read(b"\n".join([*lines[:bad], cut, *lines[bad + 1 :]]))
    assert [one.value for one in found if isinstance(one, ReadObject)] == [
        *values[:bad],
        *values[bad + 1 :],
    ]
    assert [one.line for one in found if isinstance(one, Unreadable)] == [bad + 1]


@given(st.lists(st.sampled_from(['{"a":', '"', "[", "}", "]", "\\", "---\n", "\n", "x: ", "1"])))
def test_no_text_is_too_broken(parts):
    read("".join(parts).encode())


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b"a: [", b"- ", b"? "])
def test_endless_nesting_is_told(opening):
    (found,) = read(opening * 100_000)
    assert str(found) == "neither JSON nor YAML at line 1"


def test_contents_are_never_told():
    text = b'{"password":"hunter2"\n---\npassword: [hunter2\n---\n- hunter2\n'
    assert "hunter2" not in repr(read(text))


def test_a_line_costs_no_more_memory_than_itself():
    def lines():
        for number in range(2_000):
            yield b'{"kind":"Pod","number":%d,"filler":"%s"}\n' % (number, b"x" * 5_000)

    tracemalloc.start()
    try:
        assert sum(1 for _ in read_documents(lines())) == 2_000
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


LONG = b'{"kind":"Long","filler":"%s"}\n' % (b"x" * (1 << 20))
SHORT = b'{"kind":"Pod"}\n'


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (LONG, [1]),
        (LONG.rstrip(b"\n"), [1]),
        (SHORT + LONG + SHORT, [{"kind": "Pod"}, 2, {"kind": "Pod"}]),
        (LONG + LONG + SHORT, [1, 2, {"kind": "Pod"}]),
        (b"kind: Pod\nspec: " + LONG + b"status: {}\n---\nkind: Job\n", [2, {"kind": "Job"}]),
        (b'{"kind":"Pod",\n"spec":' + LONG + b"}\n" + SHORT, [2, {"kind": "Pod"}]),
        (b'{"kind":"Pod"\n' + LONG + SHORT, [2, {"kind": "Pod"}]),
    ],
)  # fmt: skip
def test_a_line_that_is_too_long_takes_no_document_along_but_its_own(content, expected):
    found = list(read_documents(bounded(io.BytesIO(content), 1)))
    assert [one.line if isinstance(one, Unreadable) else one.value for one in found] == expected
    wrong = [one for one in found if isinstance(one, Unreadable)]
    assert {one.what for one in wrong} == {"a line longer than 1 MiB"}
    assert all(one.is_too_long for one in wrong)


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_line_of_just_the_limit_is_read(end):
    line = b"x" * (1 << 20) + end
    assert list(bounded(io.BytesIO(line + b""), 1)) == [line]
    assert list(bounded(io.BytesIO(b"x" + line), 1)) == [LongLine(1)]


class EndlessLine:
    """A file of one line of so many bytes."""

    def __init__(self, left: int) -> None:
        self.left = left

    def readline(self, size: int, /) -> bytes:
        size = min(size, self.left)
        self.left -= size
        return b"x" * size


def test_a_line_that_is_too_long_is_never_held():
    endless = EndlessLine(1 << 30)
    tracemalloc.start()
    try:
        assert list(bounded(endless, 1)) == [LongLine(1)]
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()
    assert endless.left == 0
