"""A release writes its version and its repository wherever they are named, from one place."""

import re
import shutil
from datetime import date
from pathlib import Path

import pytest

from tools.published import COPIES, NOBODY, FillError, Published, current, dated, fill_in, notes
from tools.wheel import ROOT

SERVER = "manifests/base/server/deployment.yaml"
NEXT = Published("9.8.7", "Acme/genguard")
TOLD = re.compile(r"what-a-release-has|docs/install\.md|address says `OWNER`|or your copy")
READ = [
    *(ROOT / name for name in ("README.md", "SECURITY.md", "action.yml", ".pre-commit-hooks.yaml")),
    *(path for folder in ("docs", "examples") for path in (ROOT / folder).rglob("*.*")),
    *(path for name in ("charts", "manifests") for path in (ROOT / name).rglob("*.md")),
]
CHANGELOG = """\
# Changelog

## [Unreleased]

- New: [how](docs/new.md).

## [0.1.0] - not yet published

- Old.
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in COPIES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_every_copy_says_what_pyproject_says() -> None:
    assert fill_in(current()) == []


def test_a_release_fills_in_every_copy_and_another_time_none(tree: Path) -> None:
    before = current()
    assert set(fill_in(NEXT, tree)) == set(COPIES)
    assert current(tree) == NEXT
    for name in COPIES:
        text = (tree / name).read_text()
        assert NOBODY not in text
        assert not re.search(rf"[v:\" =-]{re.escape(before.version)}\b", text), name
    assert "image: ghcr.io/acme/genguard:9.8.7" in (tree / SERVER).read_text()
    assert fill_in(NEXT, tree) == []
    fill_in(before, tree)
    assert all((tree / name).read_text() == (ROOT / name).read_text() for name in COPIES)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (Published("", "a/b"), "VERSION is ''"),
        (Published("v1.2.3", "a/b"), "VERSION is 'v1.2.3'"),
        (Published("1.2.3", "https://github.com/a/b"), "REPOSITORY is"),
    ],
)
def test_a_value_of_a_wrong_form_is_refused(tree: Path, wanted: Published, said: str) -> None:
    with pytest.raises(FillError, match=re.escape(said)):
        fill_in(wanted, tree)


def test_nothing_is_written_where_a_file_does_not_say_what_it_should(tree: Path) -> None:
    (tree / "SECURITY.md").write_text("")
    with pytest.raises(FillError, match=r"SECURITY\.md does not say"):
        fill_in(NEXT, tree)
    assert current(tree) == current()


def test_a_command_to_copy_names_no_owner_without_saying_so_and_a_release_fills_it_in() -> None:
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in READ if is_text(path)}
    assert [name for name, text in texts.items() if "registry.example.com" in text] == []
    with_owner = {name for name, text in texts.items() if NOBODY in text}
    assert with_owner <= set(COPIES)
    assert [name for name in with_owner if not TOLD.search(texts[name])] == []


def is_text(path: Path) -> bool:
    return path.is_file() and path.suffix not in {".png", ".pyc"}


def test_what_was_unreleased_gets_the_version_and_the_day() -> None:
    text = dated(CHANGELOG, "0.2.0", date(2026, 11, 25))
    assert "## [Unreleased]\n\n## [0.2.0] - 2026-11-25\n\n- New" in text
    link = "https://github.com/Acme/genguard/blob/v0.2.0/docs/new.md"
    assert notes(text, Published("0.2.0", "Acme/genguard")) == f"- New: [how]({link}).\n"
    assert dated(text, "0.2.0", date(2027, 1, 1)) == text
    first = dated(CHANGELOG, "0.1.0", date(2026, 11, 25))
    assert "## [0.1.0] - 2026-11-25\n" in first
    assert notes(first, Published("0.1.0", NOBODY)) == "- Old.\n"


@pytest.mark.parametrize("version", ["0.3.0", "0.1"])
def test_a_version_of_which_the_changelog_says_nothing_is_not_released(version: str) -> None:
    with pytest.raises(FillError, match="CHANGELOG"):
        notes(CHANGELOG, Published(version, NOBODY))
