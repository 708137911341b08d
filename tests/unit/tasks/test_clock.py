"""The clock of detection never goes back, and stands still while the process does."""

from hypothesis import given
from hypothesis import strategies as st

from webhook.tasks.clock import LONGEST_PAUSE, Clock

HOURS = st.floats(-1e6, 1e6)


@given(st.lists(st.tuples(st.floats(0.0, 1_000.0), HOURS), max_size=20), HOURS)
def test_whatever_the_time_of_day_says_time_goes_on_as_it_is_read(steps, elsewhere):
    wall, monotonic = 1_800_000_000.0, 0.0
    clock = Clock(lambda: wall, lambda: monotonic)
    before = read = clock.now()
    for passed, put in steps:
        monotonic, wall = monotonic + passed, wall + passed + put
        read += passed if passed <= LONGEST_PAUSE else 0.0
        now = clock.now()
        assert now >= before - 1e-6, "but for rounding"
        assert abs(now - read) < 1e-3
        assert abs(now + clock.ahead - wall) < 5.1, "so it is shown as the time of day"
        assert clock.of_wall(wall + elsewhere) <= now, "no other machine is ahead"
        before = now
