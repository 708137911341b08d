"""What is read out of the runbooks is what a reader would type."""

import re

import pytest

from tests.runbook_commands import PAGES, PLACEHOLDERS, RUNBOOKS, Command, commands

ALL = commands()
PATCHED = {"NAMESPACE", "RESOURCE", "NAME", "PATCH"}


def test_every_runbook_and_every_page_has_commands():
    pages = {one.page.rpartition("/")[2] for one in ALL if "/runbooks/" in one.page}
    assert pages == {path.name for path in RUNBOOKS.glob("*.md")}
    assert {one.page for one in ALL if "/runbooks/" not in one.page} == set(PAGES)


def test_what_a_reader_fills_in_is_one_of_the_known_words(subtests: pytest.Subtests):
    for command in ALL:
        with subtests.test(f"{command.page}:{command.line}"):
            assert command.placeholders <= PLACEHOLDERS.keys()
            assert "<" not in re.sub(r"<\(|<<", "", command.text)
            assert "..." not in command.text


def test_no_runbook_applies_an_overlay():
    """After `genguard install` the overlays lack the certificate: kubectl refuses them."""
    told = [one for one in ALL if "/runbooks/" in one.page and "apply -k" in one.text]
    assert told == []


@pytest.mark.parametrize(
    ("text", "placeholders", "is_endless"),
    [
        ("kubectl -n NAMESPACE get RESOURCE NAME -w", {"NAMESPACE", "RESOURCE", "NAME"}, True),
        ("genguard trace KIND/NAME -n NAMESPACE", {"KIND", "NAME", "NAMESPACE"}, False),
        ("kubectl -n genguard-system port-forward deployment/genguard 8080 &", set(), True),
        ("kubectl -n NAMESPACE patch RESOURCE NAME -p 'PATCH'", PATCHED, False),
        ("PATCH_IT=1 env", set(), False),
        ("kubectl get -o jsonpath='{.status}'", set(), False),
    ],
)
def test_placeholders_and_what_never_ends_are_seen(text, placeholders, is_endless):
    command = Command("page", 1, text)
    assert command.placeholders == placeholders
    assert command.is_endless == is_endless


def test_placeholders_are_filled_in_and_none_is_forgotten():
    command = Command("page", 1, "genguard trace KIND/NAME -n NAMESPACE")
    values = {"KIND": "deployment", "NAME": "web", "NAMESPACE": "shop"}
    assert command.filled(values) == "genguard trace deployment/web -n shop"
    with pytest.raises(KeyError):
        command.filled({"KIND": "deployment"})


def test_a_command_may_go_on_in_the_next_line_and_its_comment_is_left_out():
    (patch,) = (one for one in ALL if one.text.startswith("kubectl -n demo patch"))
    assert patch.text.count("\n") == 1
    (forward,) = (
        one for one in ALL if one.page == "manifests/README.md" and "port-forward" in one.text
    )
    assert "#" not in forward.text
