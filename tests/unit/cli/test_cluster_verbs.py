"""Command lines of `genguard status` and `wait` that can be examined without a cluster."""

import json

import pytest
from click.testing import CliRunner

from genguard.detection.finding import Confidence, Severity
from genguard.linting.check import Level
from genguard.status.drawing import Cell, Tone
from genguard.status.view import Health
from webhook.cli import main, output
from webhook.server.flags import duration

NAMED = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}


def run(*words: object):
    return CliRunner().invoke(
        main, list(map(str, words)), env={"HOME": "/missing", "KUBECONFIG": ""}
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"kind": ', "neither JSON nor YAML at line 1"),
        (json.dumps({"kind": "Pod"}), "not every object of the files has a kind and a name"),
        ("", "not every object of the files has a kind and a name"),
    ],
)
def test_a_file_that_does_not_name_all_it_holds_is_not_waited_for(tmp_path, text, told):
    path = tmp_path / "objects"
    path.write_text(text)
    result = run("wait", "-f", path)
    assert result.exit_code == 1
    assert told in result.stderr


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 30), ("30s", 30), ("1.5m", 90), ("2h", 7200), ("1m30s", 90), ("1h1m1s", 3661)],
)
def test_times_are_written_as_for_kubectl(text, seconds):
    assert duration(24).read(text) == seconds


def test_columns_are_as_wide_as_what_is_in_them_and_remarks_go_over_all():
    rows = [
        (Cell("OBJECT"), Cell("WHY")),
        (Cell("Pod/x"), Cell("no", Tone.BAD)),
        (Cell("a remark that is longer than any column"),),
    ]
    plain = [output.click.unstyle(line) for line in output.lines(rows)]
    assert plain == ["OBJECT  WHY", "Pod/x   no", "a remark that is longer than any column"]


def of_a_terminal(monkeypatch, rows, columns: int = 80, spare=()) -> list[str]:
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    return [output.click.unstyle(line) for line in output.lines(rows, spare=spare)]


WORDS = "status.conditions[Ready] False, want True: one of many reasons that somebody gives"


def test_on_a_terminal_a_long_last_cell_goes_on_in_its_column(monkeypatch):
    rows = [(Cell("OBJECT"), Cell("WHY")), (Cell("Pod/x"), Cell(WORDS))]
    assert of_a_terminal(monkeypatch, rows, 50) == [
        "OBJECT  WHY",
        "Pod/x   status.conditions[Ready] False, want True:",
        "        one of many reasons that somebody gives",
    ]


def test_a_command_in_a_remark_is_copied_as_a_whole(monkeypatch):
    remark = f"│ ! {WORDS[:50]}; genguard explain finding/0123456789abcdef"
    rows = [(Cell("OBJECT"), Cell("WHY")), (Cell(remark),)]
    assert of_a_terminal(monkeypatch, rows)[1:] == [
        f"│ ! {WORDS[:50]};",
        "    genguard explain finding/0123456789abcdef",
    ]


NARROW = [(34, "ID SEVERITY COUNT"), (30, "ID SEVERITY"), (20, "ID COUNT"), (9, "ID")]


@pytest.mark.parametrize(("columns", "titles"), NARROW)
def test_a_terminal_that_is_narrow_lacks_the_least_important_columns(monkeypatch, columns, titles):
    head, row = ("ID", "SEVERITY", "COUNT", "OBJECT"), ("0123456789", "critical", "12", "web")
    rows = [tuple(map(Cell, one)) for one in (head, row, ("a remark",))]
    told = of_a_terminal(monkeypatch, rows, columns, spare=("COUNT", "SEVERITY", "NONE"))
    assert told[0].split()[: len(titles.split())] == titles.split()
    assert "SEVERITY" in titles or "SEVERITY" not in told[0]
    assert told[-1] == "a remark"


def test_words_that_have_a_rank_are_sorted_by_it():
    for scale in (Severity, Health, tuple(reversed(Confidence)), tuple(reversed(Level))):
        words = [one.value for one in scale]
        assert sorted(words, key=lambda word: output._rank([word])) == words


@pytest.mark.parametrize("columns", [1, 20, 40])
def test_a_terminal_that_is_very_narrow_loses_no_word(monkeypatch, columns):
    rows = [(Cell("OBJECT"), Cell("WHY")), (Cell("Pod/x"), Cell(WORDS)), (Cell(WORDS),)]
    words = " ".join(of_a_terminal(monkeypatch, rows, columns)).split()
    assert words == ["OBJECT", "WHY", "Pod/x", *WORDS.split(), *WORDS.split()]
