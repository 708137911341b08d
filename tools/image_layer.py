"""Makes what genguard adds to its base image, without Docker: `python -m tools.image_layer`.

The files of the packages in requirements.lock, as they are installed here, and those of genguard's
wheel, with what the Dockerfile then removes and cuts off; and bytecode of the rest. It prints how
many bytes these are, before and after. The base image comes on top.
"""

import compileall
import re
import tempfile
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

from tools import symbols
from tools.locked import locked
from tools.wheel import ROOT, build, copy_source

_LEFT_OUT: Final = re.compile(r"&& rm \\\n((?: +\S+(?: \\)?\n)+)")
_MB: Final = 1e6


def left_out() -> list[str]:
    """Return the patterns of what the Dockerfile removes, relative to site-packages."""
    (found,) = _LEFT_OUT.findall((ROOT / "Dockerfile").read_text())
    return [word for word in found.split() if word != "\\"]


def install(folder: Path) -> None:
    """Put everything into a folder, as pip puts it into site-packages."""
    for package in locked():
        for file in distribution(package.name).files or ():
            # Scripts are beside site-packages, and bytecode comes later.
            if ".." not in file.parts and "__pycache__" not in file.parts:
                to = folder / file
                to.parent.mkdir(parents=True, exist_ok=True)
                to.write_bytes(Path(str(file.locate())).read_bytes())
    with tempfile.TemporaryDirectory() as work:
        wheel = build(copy_source(Path(work) / "source"), Path(work))
        with zipfile.ZipFile(wheel) as opened:
            opened.extractall(folder)


def shrink(folder: Path) -> None:
    """Do what the Dockerfile does with the installed packages."""
    for pattern in left_out():
        for path in folder.glob(pattern):
            path.unlink()
    symbols.main(str(folder))


def total(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    """Print the bytes of each step."""
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "site-packages"
        install(folder)
        print(f"{total(folder) / _MB:6.1f} MB of packages, genguard's own among them")
        shrink(folder)
        print(f"{total(folder) / _MB:6.1f} MB without what is never imported or loaded")
        compileall.compile_dir(folder, quiet=1)
        print(f"{total(folder) / _MB:6.1f} MB with bytecode: what the base image grows by")


if __name__ == "__main__":
    main()
