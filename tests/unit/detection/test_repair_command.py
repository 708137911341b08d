"""The command for a repair by hand: what a shell makes of it, whatever an object is called."""

import shlex
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from genguard.detection.damage import Damage, LostValue, repair_command
from genguard.detection.finding import FoundObject

WEB = FoundObject("apps", "v1", "deployments", "shop", "web", "uid-1")


class Asked(NamedTuple):
    """What the command is asked for."""

    where: FoundObject = WEB
    subresource: str = "status"
    damage: Damage = Damage((LostValue(None, 3),), "deployment-controller")


def losing(*lost: tuple[str | None, Any]) -> Asked:
    return Asked(damage=Damage(tuple(LostValue(*one) for one in lost), "deployment-controller"))


NAMED, STATUS = "deployments.apps web -n shop", "--subresource=status"
PATCH, QUOTED = '{"status":{"observedGeneration":%s}}', '"3"'
FILTERS = (
    ".status.observedGeneration = 3 | "
    '(.status.conditions[] | select(.type == "Ready")).observedGeneration = 3'
)


@pytest.mark.parametrize(
    ("asked", "command"),
    [
        (Asked(), f"kubectl patch {NAMED} {STATUS} --type=merge -p '{PATCH % '3'}'"),
        (losing((None, "3")), f"kubectl patch {NAMED} {STATUS} --type=merge -p '{PATCH % QUOTED}'"),
        (
            Asked(FoundObject("", "v1", "nodes", "", "n1", "")),
            f"kubectl patch nodes n1 {STATUS} --type=merge -p '{PATCH % '3'}'",
        ),
        (
            Asked(FoundObject("example.org", "v1", "widgets", "shop", "w", ""), subresource=""),
            f"kubectl patch widgets.example.org w -n shop --type=merge -p '{PATCH % '3'}'",
        ),
        (
            losing((None, 3), ("Ready", 3)),
            f"kubectl get {NAMED} -o json | jq '{FILTERS}' | kubectl replace {STATUS} -f -",
        ),
        (losing(), ""),
        (Asked(damage=Damage((LostValue(None, 3),))), ""),
        (losing((None, "three")), ""),
        (losing(('Ready") | halt', 3)), ""),
        (Asked(replace(WEB, name="--all")), ""),
        (Asked(replace(WEB, namespace="\x1b[2J")), ""),
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
def test_a_command_puts_back_what_was_lost_and_nothing_else(asked, command):
    assert repair_command(*asked) == command


names = st.text(min_size=1, max_size=20)


@given(names, names, names, names, st.sampled_from([None, "Ready"]))
def test_no_name_becomes_another_word_of_the_command(group, resource, namespace, name, condition):
    where = FoundObject(group, "v1", resource, namespace, name, "")
    command = repair_command(*losing((condition, 3))._replace(where=where))
    if command:
        words = shlex.split(command)
        assert words[2:6] == [f"{resource}.{group}", name, "-n", namespace]
        assert command.isprintable()
        assert words.count("|") == (0 if condition is None else 2)
