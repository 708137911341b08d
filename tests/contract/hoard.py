"""Reviews that make a server remember: each attack fills another structure, with new names each."""

import json
from collections.abc import Callable
from typing import Any, Final

from tests.reviews import make_review

Request = tuple[str, bytes]
"""A path and a body."""

_WIDE: Final = "\N{PILE OF POO}"
"""Four bytes a character in memory, whatever the rest of a text is."""
_CONDITIONS: Final = 1_000
_FEW_CONDITIONS: Final = 20
"""Of long types: more are not remembered of an intent."""


def _review(number: int, new: Any, old: Any, **arguments: Any) -> dict[str, Any]:
    asked = make_review(new=new, old=old, name=f"thing-{number}", **arguments)
    for one in (asked["request"]["object"], asked["request"]["oldObject"]):
        if one is not None:
            one["metadata"] |= {"uid": f"uid-{number}", "name": f"thing-{number}"}
    return asked


def _sent(path: str, asked: dict[str, Any]) -> Request:
    return path, json.dumps(asked, ensure_ascii=False).encode()


def _intent(number: int) -> list[Request]:
    """An intent as large as is remembered."""
    conditions = [
        {"type": f"{_WIDE}{number:08}{index}{'t' * 280}", "observedGeneration": 2**40 + number}
        for index in range(_FEW_CONDITIONS)
    ]
    status = {"observedGeneration": number + 1, "conditions": conditions}
    return [_sent("/intent", _review(number, {"status": status}, {}, subresource="status"))]


def _answer(number: int) -> list[Request]:
    """A write whose key is as long as is remembered, and whose answer has to be repeated."""
    asked = _review(
        number,
        {"metadata": {"generation": 1}, "spec": {"replicas": 2}},
        {"metadata": {"generation": 1}, "spec": {"replicas": 1}},
        user=f"{number}{_WIDE * 3_500}",
    )
    return [_sent("/mutate", asked)]


def _kind(number: int) -> list[Request]:
    """A creation of a kind with a name of 400 KB."""
    asked = _review(number, {"spec": {"replicas": 1}}, None, operation="CREATE")
    asked["request"]["resource"]["group"] = f"{number}{'g' * 400_000}"
    return [_sent("/outcome", asked)]


def _version(number: int) -> list[Request]:
    """A write in a version with a name of 400 KB."""
    asked = _review(number, {"spec": {"replicas": 1}}, {"spec": {"replicas": 2}})
    asked["request"]["resource"]["version"] = f"{number}{'v' * 400_000}"
    return [_sent("/outcome", asked)]


def _deep(number: int) -> list[Request]:
    """A write of 5,000 leaves, 900 levels down."""
    inside = json.dumps({f"{number}-{index}": index for index in range(5_000)})
    text = "SPEC"
    asked = json.dumps(_review(number, {"spec": text}, {"spec": {}}))
    deep = '{"a":' * 900 + inside + "}" * 900
    return [("/outcome", asked.replace(f'"{text}"', deep).encode())]


def _wide(number: int) -> list[Request]:
    """A write that is never told the end of, of 1,000 leaves with names of 300 characters."""
    spec = {f"{number}-{index}-{_WIDE}{'x' * 300}": index for index in range(1_000)}
    return [_sent("/intent", _review(number, {"spec": spec}, {"spec": {}}))]


def _loop(number: int) -> list[Request]:
    """A webhook that clears and drops what was sent: findings, with fields of 300 characters."""
    fields = {f"{index}-{'x' * 300}": "y" * 10 for index in range(20)}
    conditions = [{"type": f"{index}-{'t' * 300}", "observedGeneration": 4} for index in range(20)]
    sent = {"status": {"observedGeneration": 4, **fields, "conditions": conditions}}
    cleared = [{"type": one["type"]} for one in conditions]
    stored = {"status": {"observedGeneration": 3, **fields, "conditions": conditions}}
    lost = {"status": {"conditions": cleared}}
    long = {"subresource": "status", "user": f"{number}-{'u' * 3_000}"}
    return [
        _sent("/intent", _review(number, sent, stored, **long)),
        _sent("/mutate", _review(number, lost, stored, **long)),
        _sent("/outcome", _review(number, lost, stored, **long)),
    ]


def _status(number: int) -> list[Request]:
    """A status write that detection remembers, with a thousand conditions of long types."""
    conditions = [
        {"type": f"{_WIDE}{number}-{index}-{'t' * 200}", "observedGeneration": 2**40 + number}
        for index in range(_CONDITIONS)
    ]
    old = {"status": {"observedGeneration": number + 1}}
    new = {"status": {"observedGeneration": number + 2, "conditions": conditions}}
    return [_sent("/outcome", _review(number, new, old, subresource="status"))]


def _fields(number: int) -> list[Request]:
    """An object with 35,000 fields side by side, which are found but not looked at."""
    extra = {f"{number % 10}{index:05}": 0 for index in range(35_000)}
    return [_sent("/outcome", _review(number, {"spec": {"a": 1}, **extra}, {"spec": {"a": 2}}))]


def _many_values(number: int) -> list[Request]:
    """A body of 7 MiB of lists, which takes most when it is decoded."""
    lists = "[" + "[],[]," * 1_100_000 + "0]"
    asked = json.dumps(_review(number, {"spec": "SPEC"}, {"spec": {}}))
    return [("/mutate", asked.replace('"SPEC"', f'{{"a": {lists}}}').encode())]


def _created(number: int) -> list[Request]:
    """Objects to be tracked, with the longest names and owners."""
    long = f"{number:08}"
    asked = make_review(
        "CREATE", new={"spec": {"replicas": 1}}, name=long + "n" * 245, resource="deployments"
    )
    asked["request"]["object"]["metadata"] |= {
        "name": long + "n" * 245,
        "namespace": "m" * 253,
        "uid": long + "u" * 120,
        "ownerReferences": [{"uid": "o" * 128}],
        "generation": 1,
    }
    return [_sent("/outcome", asked)]


ATTACKS: Final[dict[str, Callable[[int], list[Request]]]] = {
    "intents with long types": _intent,
    "answers to long names": _answer,
    "kinds with long names": _kind,
    "versions with long names": _version,
    "leaves far down": _deep,
    "writes without an end": _wide,
    "findings with long fields": _loop,
    "statuses with long types": _status,
    "fields side by side": _fields,
    "very many values": _many_values,
    "objects with long names": _created,
}
