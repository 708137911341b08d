"""The style sheet of the dashboard is whole."""

from webhook.dashboard.rendering import static


def test_every_block_of_the_style_sheet_is_closed_before_the_next_section():
    depth = 0
    for line in static("dashboard.css").decode().splitlines():
        assert depth == 0 or not line.startswith("/*"), line
        depth += line.count("{") - line.count("}")
    assert depth == 0
