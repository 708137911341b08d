"""Pages of the manual: every verb and flag is in them, and readers of roff have nothing to say."""

import re
import subprocess
import tarfile
from pathlib import Path

import click
import pytest

from tests.debian import Packages
from tools.manual import archive, page
from tools.schemas import OUTPUTS
from webhook.cli import VERBS, main

MANDOC = Packages(
    "mandoc", {"mandoc": ("mandoc",)}, (("mandoc",),), "https://mandoc.bsd.lv", libraries=False
)
PAGES = (None, *VERBS)
NO_DATE = "missing date"
"""A page is the same bytes whenever it is made."""


def plain(text: str) -> str:
    return text.replace("\\-", "-").replace("\\(aq", "'").replace("\\&", "").replace("\\e", "\\")


@pytest.mark.parametrize("verb", VERBS)
def test_a_page_has_every_flag_and_says_what_the_exit_code_is(verb):
    text = plain(page(verb))
    command = main.get_command(click.Context(main), verb)
    assert command is not None
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.opts[-1] in text
            assert parameter.help is not None
            assert " ".join(parameter.help.split())[:40] in text
    assert re.search(r"\.SH EXIT STATUS\nThe exit code is 0", text)
    assert re.search(rf"\.SH EXAMPLES\n\.nf\n# .*\ngenguard {verb}", text)


def test_the_first_page_names_every_verb_and_the_scheme_of_exit_codes():
    text = plain(page(None))
    assert all(f"genguard-{verb}" in text for verb in VERBS)
    ends = text.partition(".SH EXIT STATUS")[2]
    assert "  3        the answer did not come in time: wait, trace" in ends


def test_lines_that_stay_as_they_are_stay():
    lines = plain(page("completion")).splitlines()
    begin = lines.index(".nf")
    assert lines[begin + 1].startswith("bash   source")
    assert lines[begin + 4] == ".fi"


def test_what_roff_would_take_for_its_own_is_escaped(monkeypatch):
    words = ".PP\n\n'tis \\fB a --flag"
    monkeypatch.setattr(main.get_command(click.Context(main), "version"), "help", words)
    text = page("version")
    assert "\n\\&.PP\n" in text
    assert "\n\\(aqtis \\efB a \\-\\-flag" in text


def test_the_archive_has_every_page_and_schema_and_is_the_same_bytes_each_time(tmp_path: Path):
    packed = archive(tmp_path)
    with tarfile.open(packed) as tar:
        names = set(tar.getnames())
    assert names == {
        *("man1", "schemas", "man1/genguard.1"),
        *(f"man1/genguard-{verb}.1" for verb in VERBS),
        *(f"schemas/{output}.json" for output in OUTPUTS),
    }
    assert archive(tmp_path / "again").read_bytes() == packed.read_bytes()


@pytest.mark.slow
def test_mandoc_warns_of_nothing(tmp_path: Path):
    with tarfile.open(archive(tmp_path)) as tar:
        tar.extractall(tmp_path, filter="data")
    pages = sorted(map(str, (tmp_path / "man1").iterdir()))
    command = [str(MANDOC.binary("mandoc")), "-T", "lint", "-W", "warning", *pages]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = [line for line in (done.stdout + done.stderr).splitlines() if NO_DATE not in line]
    assert len(pages) == len(PAGES)
    assert told == []
