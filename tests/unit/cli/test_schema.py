"""The JSON schemas of outputs, as they are printed and kept in docs/schemas."""

import json

from click.testing import CliRunner
from jsonschema import Draft202012Validator

from tests.readme import tables
from webhook.cli import main
from webhook.cli.schema import OUTPUTS


def test_the_schemas_of_the_repository_are_those_that_are_printed():
    """`python -m tests.readme.tables` writes them."""
    kept = {path.name: path.read_text() for path in tables.SCHEMAS.iterdir()}
    assert kept == tables.wanted_schemas()
    for name in OUTPUTS:
        printed = CliRunner().invoke(main, ["schema", name])
        assert printed.stdout == kept[f"{name}.json"]
        Draft202012Validator.check_schema(json.loads(printed.stdout))


def test_without_an_output_they_are_listed():
    listed = CliRunner().invoke(main, ["schema"]).stdout.splitlines()
    assert [line.split()[0] for line in listed] == list(OUTPUTS)


def test_an_output_that_does_not_exist_is_told_in_one_line():
    result = CliRunner().invoke(main, ["schema", "nothing"])
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
