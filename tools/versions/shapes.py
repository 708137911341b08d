"""What the Go types of a release have that genguard/objects/type_shapes.json has not."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from genguard.generation.table import GenerationTable
from tests.controlplane.build import MODULE, BuildError

SHAPES: Final = Path(__file__).parents[2] / "genguard" / "objects" / "type_shapes.json"
_PROGRAM: Final = MODULE / "typeshapes" / "main.go"
Shapes = dict[str, dict[str, Any]]


def shapes_of(table: GenerationTable, folder: Path) -> Shapes:
    """Return the Go types of kinds whose fields are compared, as the module in `folder` has them.

    Raises BuildError.
    """
    asked = [
        f"{row.group or 'core'}/{version}/{row.kind}"
        for row in table.rows
        if table.serves(row) and any(entry.compare for entry in row.behaviour)
        for version in table.versions(row)
    ]
    go = shutil.which("go")
    if go is None:
        raise BuildError("there is no go command on PATH")
    done = subprocess.run(
        [go, "run", _PROGRAM, *asked],
        cwd=folder,
        env=os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BuildError(
            f"typeshapes in {folder}: {''.join(done.stderr.strip().splitlines()[-1:])}"
        )
    found: Shapes = json.loads(done.stdout)
    return found


def missing(shipped: Shapes, found: Shapes) -> Iterator[str]:
    """Yield what a release has and the file has not, or has in another way."""
    for name in sorted(found["roots"].keys() - shipped["roots"].keys()):
        yield f"type_shapes.json: {name} is not there"
    for name, fields in sorted(found["types"].items()):
        known = shipped["types"].get(name)
        if known is None:
            yield f"type_shapes.json: {name} is not there"
            continue
        for field, code in sorted(fields.items()):
            if known.get(field) != code:
                yield f"type_shapes.json: {name} {field} is {known.get(field)}, not {code}"


def merged(shipped: Shapes, found: Shapes) -> Shapes:
    """Return both together: older servers have fields and types that the release has lost."""
    types: Mapping[str, Any] = {
        name: dict(sorted({**shipped["types"].get(name, {}), **fields}.items()))
        for name, fields in {**shipped["types"], **found["types"]}.items()
    }
    roots = {**shipped["roots"], **found["roots"]}
    return {"roots": dict(sorted(roots.items())), "types": dict(sorted(types.items()))}


def written_shapes(shapes: Shapes) -> str:
    """Return the text of type_shapes.json: a line for each root and type."""
    blocks = []
    for part, named in shapes.items():
        lines = (f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in named.items())
        blocks.append(f'"{part}": {{\n' + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"
