"""Draws what `make demo` prints: `python -m tools.demo.picture` writes tools/demo/demo.svg."""

import io
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

_PICTURE = Path(__file__).with_name("demo.svg")
_WIDTH = 128
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""They would be fetched from elsewhere: a picture in a README shows without."""
_FOLDER = re.compile(r"=/\S+/")
_STYLES = (
    (re.compile(r"^\d/\d  "), "bold green"),
    (re.compile(r"^\$ "), "cyan"),
    (re.compile(r"^  error: "), "red"),
    (re.compile(r"^  [a-z-]+  \S+/\S+  \S+/\S+$"), "bold #000000 on #ffd54f"),  # the culprit
    (re.compile(r"successfully rolled out$"), "green"),
)
"""How a line is shown, by its first pattern that matches."""


def main() -> None:
    """Run the demo and draw it."""
    command = [sys.executable, "-m", "tools.demo"]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    _PICTURE.write_text(draw(done.stdout))


def draw(said: str) -> str:
    """An SVG of these lines, as a terminal of 128 columns shows them."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text("$ make demo"))
    for line in said.splitlines():
        style = next((style for pattern, style in _STYLES if pattern.search(line)), "")
        console.print(Text(_FOLDER.sub("=.../", line), style=style))
    drawn = console.export_svg(title="genguard", unique_id="demo")
    return "\n".join(line.rstrip() for line in _FONTS.sub("", drawn).splitlines()) + "\n"


if __name__ == "__main__":
    main()
