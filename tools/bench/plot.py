"""The main numbers as bars: an SVG that reads on light and dark ground, drawn with nothing else."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from tools.bench.results import Results, middle
from tools.bench.servers import GENGUARD


class Panel(NamedTuple):
    """One number, a bar for each server."""

    key: str
    title: str
    digits: int


PANELS: Final = (
    Panel("cpu_us", "CPU µs a request", 0),
    Panel("rate", "requests a second", 0),
    Panel("p99_ms_500", "p99 ms at 500/s", 1),
)
_NAMES: Final = 122
_BARS: Final = 130
_PANEL: Final = 225
_ROW: Final = 26
_TOP: Final = 34
_STYLE: Final = """
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.title { font-weight: 600; }
rect { fill: #8c959f; }
rect.own { fill: #0969da; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  rect { fill: #6e7681; }
  rect.own { fill: #4493f8; }
}
"""


def plot(results: Results) -> str:
    """The text of results.svg; equal results give equal text."""
    servers = list(results.servers)
    panels = [
        panel for panel in PANELS if all(results.servers[one].get(panel.key) for one in servers)
    ]
    drawn = [*_names(servers, 0)]
    for position, panel in enumerate(panels):
        values = [middle(results.servers[server], panel.key) or 0.0 for server in servers]
        own = [server.startswith(GENGUARD) for server in servers]
        drawn += _bars(panel, values, own, _NAMES + _PANEL * position)
    title = f"{', '.join(panel.title for panel in panels)}, by server"
    return _image(title, _NAMES + _PANEL * len(panels), len(servers), drawn)


def _image(title: str, width: int, rows: int, drawn: Sequence[str]) -> str:
    height = _TOP + _ROW * rows
    opening = (
        '<svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    )
    described = f"<title>{escape(title)}</title>"
    return "\n".join((opening, described, f"<style>{_STYLE}</style>", *drawn, "</svg>\n"))


def _names(names: Sequence[str], left: int) -> Iterator[str]:
    for row, name in enumerate(names):
        yield f'<text x="{left}" y="{_TOP + row * _ROW + 15}">{escape(name)}</text>'


def _bars(panel: Panel, values: Sequence[float], own: Sequence[bool], left: int) -> Iterator[str]:
    yield f'<text class="title" x="{left}" y="16">{escape(panel.title)}</text>'
    for row, (value, is_own) in enumerate(zip(values, own, strict=True)):
        length = max(1.0, value / max(values) * _BARS)
        top = _TOP + row * _ROW
        kind = ' class="own"' if is_own else ""
        yield f'<rect{kind} x="{left}" y="{top}" width="{length:.1f}" height="20" rx="2"/>'
        shown = f"{value:,.{panel.digits}f}"
        yield f'<text x="{left + length + 6:.1f}" y="{top + 15}">{shown}</text>'
