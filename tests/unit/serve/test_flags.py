"""A flag is declared once: options, file, documents and manifests follow from the declaration."""

import ast
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

import webhook
from tests.cases_loader import Case, table
from tools import tables
from webhook.cli.serve import serve
from webhook.server.flags import FILE, duration, flag, name_of, options_of, read_config
from webhook.server.settings import BadSettingsError, Settings

FOLDER = Path(webhook.__file__).parent
NAMES = [name_of(one) for one in fields(Settings)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One flag of each sort."""

    switch: bool = flag(default=False)
    number: int = flag(0, metavar="MOST", type=click.IntRange(0))
    pause: float = flag("30s", type=duration(1))
    names: tuple[str, ...] = flag((), multiple=True)
    way: str = flag("left", type=click.Choice(["left", "right"]))
    place: str | None = flag(None)


def parse(*arguments: str) -> Example:
    config = click.Option(
        ["--config"], type=FILE, callback=read_config, is_eager=True, expose_value=False
    )
    command = click.Command("example", params=[*options_of(Example), config])
    return Example(**command.make_context("example", list(arguments)).params)


def test_a_flag_is_an_option_and_a_key_of_the_file(tmp_path):
    expected = Example(switch=True, number=2, pause=60.0, names=("a", "b"), way="right", place="x")
    line = ["--switch", "--number", "2", "--pause", "1m", "--names", "a", "--names", "b"]
    line += ["--way", "right", "--place", "x"]
    assert parse(*line) == expected
    path = tmp_path / "config.yaml"
    values = {"switch": True, "number": 2, "pause": "1m", "names": ["a", "b"], "way": "right"}
    path.write_text(yaml.safe_dump({**values, "place": "x"}))
    assert parse("--config", str(path)) == expected


def test_serve_takes_every_flag_of_the_settings_and_no_other():
    options = {option for one in serve.params for option in one.opts if option.startswith("--")}
    assert options == {*NAMES, "--config"}


def test_an_empty_command_line_gives_the_default_settings():
    assert Settings(**serve.make_context("serve", []).params) == Settings()


def test_the_documents_describe_every_flag():
    """`python -m tools.tables` writes the table."""
    assert tables.written_flags() == tables.wanted_flags()


def test_every_flag_has_an_effect():
    """A flag that is declared and never read is forgotten."""
    read: set[str] = set()
    for path in (
        *("serve/app.py", "serve/connected.py", "server/settings.py"),
        *("server/lifecycle.py", "server/certificate.py"),
    ):
        for node in ast.walk(ast.parse((FOLDER / path).read_text())):
            if isinstance(node, ast.Attribute):
                read.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                read.add(node.value)
    assert {one.name for one in fields(Settings)} <= read


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heal": True}, "--heal needs a cluster"),
        ({"cert_dir": Path("a"), "cert_secret": "s", "kubeconfig": "k"}, "one of --cert-dir"),
        ({"object_metrics": 1}, "--object-metrics shows what is watched"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(settings: dict[str, Any], message: str):
    with pytest.raises(BadSettingsError, match=message):
        Settings(**settings).check()


@table("server/runbook_urls.yaml", "settings", "wanted")
def test_runbooks_are_linked_where_the_dashboard_is_reached(case: Case):
    assert Settings(**case["settings"]).runbooks == case["wanted"], case.because


@pytest.mark.parametrize("flag", ["--alertmanager", "--runbook-url"])
@pytest.mark.parametrize("password", ["canary", "with/canary", "with@canary", "canary:99999999"])
def test_a_url_that_is_refused_is_shown_without_its_password(flag: str, password: str):
    result = CliRunner().invoke(serve, [f"{flag}=http://admin:{password}@peer:9093?a=b"])
    assert result.exit_code == 2
    assert "'http://peer:9093?a=b' is not a URL" in result.output
    assert "canary" not in result.output
