"""The commands that documents show are ones that the command line takes."""

import re
import shlex

import pytest

from tests.readme.commands import DOCUMENTS
from tests.unit.manifest_files import MANIFESTS
from webhook.cli import main

PAGES = (*DOCUMENTS, *MANIFESTS.rglob("*.md"))
VERBS = ("install", "doctor", "uninstall")
_SHOWN = re.compile(rf"genguard (?:{'|'.join(VERBS)})\b[^`\n#]*")


def shown():
    for page in PAGES:
        for command in _SHOWN.findall(page.read_text()):
            yield command.strip()


@pytest.mark.parametrize("command", sorted(set(shown())))
def test_a_command_in_a_document_is_understood(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ca.crt").touch()
    _, verb, *arguments = shlex.split(command)
    found = main.get_command(main.make_context("genguard", [verb]), verb)
    assert found is not None
    found.make_context(verb, arguments)
