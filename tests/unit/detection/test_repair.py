"""The command for a repair by hand: what a shell makes of it, whatever an object is called."""

import shlex
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from webhook.detection.finding import FoundObject
from webhook.detection.repair import repair_command

WEB = FoundObject("apps", "v1", "deployments", "shop", "web", "uid-1")


class Lost(NamedTuple):
    condition: str | None
    value: int | str


class Damage(NamedTuple):
    lost: tuple[Lost, ...] = (Lost(None, 3),)
    writer: str = "deployment-controller"


class Damaged(NamedTuple):
    object: FoundObject = WEB
    subresource: str = "status"
    damage: Damage = Damage()


def losing(*lost: tuple[str | None, Any]) -> Damaged:
    return Damaged(damage=Damage(tuple(Lost(*one) for one in lost)))


NAMED, STATUS = "deployments.apps web -n shop", "--subresource=status"
PATCH, QUOTED = '{"status":{"observedGeneration":%s}}', '"3"'
FILTERS = (
    ".status.observedGeneration = 3 | "
    '(.status.conditions[] | select(.type == "Ready")).observedGeneration = 3'
)


@pytest.mark.parametrize(
    ("damaged", "command"),
    [
        (Damaged(), f"kubectl patch {NAMED} {STATUS} --type=merge -p '{PATCH % '3'}'"),
        (losing((None, "3")), f"kubectl patch {NAMED} {STATUS} --type=merge -p '{PATCH % QUOTED}'"),
        (
            Damaged(FoundObject("", "v1", "nodes", "", "n1", "")),
            f"kubectl patch nodes n1 {STATUS} --type=merge -p '{PATCH % '3'}'",
        ),
        (
            Damaged(FoundObject("example.org", "v1", "widgets", "shop", "w", ""), subresource=""),
            f"kubectl patch widgets.example.org w -n shop --type=merge -p '{PATCH % '3'}'",
        ),
        (
            losing((None, 3), ("Ready", 3)),
            f"kubectl get {NAMED} -o json | jq '{FILTERS}' | kubectl replace {STATUS} -f -",
        ),
        (losing(), ""),
        (Damaged(damage=Damage(writer="")), ""),
        (losing((None, "three")), ""),
        (losing(('Ready") | halt', 3)), ""),
        (Damaged(replace(WEB, name="--all")), ""),
        (Damaged(replace(WEB, namespace="\x1b[2J")), ""),
    ],
    ids=[
        "a number",
        "digits",
        "no namespace",
        "no status subresource",
        "a condition",
        "nothing lost",
        "nobody knows whose it was",
        "no digits",
        "a type that is none",
        "a name that is a flag",
        "a name that steers a terminal",
    ],
)
def test_a_command_puts_back_what_was_lost_and_nothing_else(damaged, command):
    assert repair_command(damaged) == command


names = st.text(min_size=1, max_size=20)


@given(names, names, names, names, st.sampled_from([None, "Ready"]))
def test_no_name_becomes_another_word_of_the_command(group, resource, namespace, name, condition):
    where = FoundObject(group, "v1", resource, namespace, name, "")
    command = repair_command(losing((condition, 3))._replace(object=where))
    if command:
        words = shlex.split(command)
        assert words[2:6] == [f"{resource}.{group}", name, "-n", namespace]
        assert command.isprintable()
        assert words.count("|") == (0 if condition is None else 2)
