"""What is nested too deep for the decoder is left out of JSON; everything else stays."""

import json

import msgspec
import pytest

from genguard.formats.nesting import DEEPEST, cut_deep, decode_cut

DEEP = b'{"a":[' * 800 + b"]}" * 800


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b'{"a":[1,{"b":"}]"}],"c":"\\"{"}',
        b'{"a":"' + b"{" * 3_000 + b'"}',
        b"[" * DEEPEST + b"]" * DEEPEST,
    ],
    ids=["nothing", "a word", "brackets in texts", "many brackets in a text", "as deep as allowed"],
)
def test_json_that_is_not_too_deep_stays_as_it_is(text):
    assert cut_deep(text) == (text, frozenset())


def test_a_level_too_many_is_null_and_what_is_around_it_stays():
    before, after = b'{"a":1,"deep":', b',"z":[2]}'
    text = before + DEEP + after
    found = json.loads(cut_deep(text).text)
    assert (found["a"], found["z"]) == (1, [2])
    levels, value = 1, found["deep"]
    while value is not None:
        levels += 1
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
    assert levels == DEEPEST


def test_the_items_of_a_list_that_have_lost_a_value_are_known():
    items = [b'{"n":0}', b'{"n":1,"d":' + DEEP + b"}", b'{"n":2,"s":{}}', b'{"d":' + DEEP + b"}"]
    text = b'{"kind":"List","metadata":{"continue":""},"items":[' + b",".join(items) + b"]}"
    cut = cut_deep(text)
    assert cut.items == {1, 3}
    assert [one.get("n") for one in json.loads(cut.text)["items"]] == [0, 1, 2, None]


def test_json_is_decoded_however_deep_it_is():
    assert decode_cut(b'{"a":1,"deep":' + DEEP + b"}")["a"] == 1
    assert decode_cut(b'{"a":1}') == {"a": 1}


@pytest.mark.parametrize("text", [DEEP[:-1], DEEP + b"]", b'{"a":'], ids=["open", "shut", "half"])
def test_json_that_is_broken_stays_broken(text):
    with pytest.raises(msgspec.DecodeError):
        decode_cut(text)
