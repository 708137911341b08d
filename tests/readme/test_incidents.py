"""docs/incidents.md: what is played today has the lines that the page shows."""

from tools.incidents import HEAD, wanted_incidents
from tools.tables import INCIDENTS, table_of


def test_each_shape_has_the_line_that_genguard_prints():
    """`python -m tools.tables` writes them."""
    written = table_of(INCIDENTS, HEAD)
    assert written == wanted_incidents()
    assert sum(line.count("#") for line in written) >= 50
