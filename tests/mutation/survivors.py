"""survivors.yaml: mutants that no test can or need notice, each with the reason."""

from pathlib import Path
from typing import Final

import yaml

from tests.mutation.mutants import Mutant

LIST: Final = Path(__file__).with_name("survivors.yaml")
Survivors = dict[Mutant, str]


def load() -> Survivors:
    """Mutant → reason; raises KeyError for an entry without one."""
    return {
        Mutant(function, entry["was"], now): entry["because"]
        for function, entries in (yaml.safe_load(LIST.read_text()) or {}).items()
        for entry in entries
        for now in entry["now"]
    }
