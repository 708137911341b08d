"""Definitions to explain."""

import yaml

from tests.cases_loader import FOLDER

DEFINITIONS = FOLDER / "explain" / "definitions.yaml"


def definitions():
    return list(yaml.safe_load_all(DEFINITIONS.read_text()))
