"""Every kind of valid expression, for Hypothesis."""

from collections.abc import Sequence

from hypothesis import strategies as st

from mainspring.timing.cron.fields import MACROS

MONTHS = ("JAN", "feb", "Mar", "APR", "may", "Jun", "JUL", "aug", "Sep", "OCT", "nov", "Dec")
DAYS = ("SUN", "mon", "Tue", "WED", "thu", "Fri", "SAT")


def _values(low: int, high: int, names: Sequence[str]) -> st.SearchStrategy[str]:
    numbers = st.integers(low, high).map(str) | st.integers(low, high).map("{:02}".format)
    return numbers | st.sampled_from(names) if names else numbers


def field(low: int, high: int, names: Sequence[str] = ()) -> st.SearchStrategy[str]:
    """One field without letters of its own; its ranges may wrap around."""
    value = _values(low, high, names)
    span = st.builds("{}-{}".format, value, value)
    step = st.integers(1, high).map("/{}".format)
    part = value | span | st.builds("{}{}".format, value | span, step)
    listed = st.lists(part, min_size=1, max_size=4).map(",".join)
    star = st.sampled_from("*?")
    return star | listed | st.builds("{}{}".format, star, step)


def plain_field(low: int, high: int) -> st.SearchStrategy[str]:
    """One field that every cron reads alike: numbers, and ranges and steps that lead somewhere."""
    ends = st.tuples(st.integers(low, high - 1), st.integers(1, high - low)).map(lambda at: (at[0], min(sum(at), high)))
    span = ends.map(lambda at: f"{at[0]}-{at[1]}")
    stepped = st.builds(lambda at, step: f"{at[0]}-{at[1]}/{min(step, at[1] - at[0])}", ends, st.integers(1, high))
    onwards = st.builds(
        lambda first, step: f"{first}/{min(step, high - first)}", st.integers(low, high - 1), st.integers(1, high)
    )
    part = st.integers(low, high).map(str) | span | stepped | onwards
    listed = st.lists(part, min_size=1, max_size=3).map(",".join)
    return st.just("*") | listed | st.integers(1, high - low).map("*/{}".format)


def _days() -> st.SearchStrategy[str]:
    nearest = st.integers(1, 31).map("{}W".format)
    from_end = st.builds("L-{}{}".format, st.integers(0, 30), st.sampled_from(["", "W", "w"]))
    return field(1, 31) | nearest | from_end | st.sampled_from(["L", "l", "LW"])


def _weekdays() -> st.SearchStrategy[str]:
    day = _values(0, 7, DAYS)
    return field(0, 7, DAYS) | day.map("{}L".format) | st.builds("{}#{}".format, day, st.integers(1, 5))


def expressions() -> st.SearchStrategy[str]:
    """Five fields, six fields and macros."""
    five = st.tuples(field(0, 59), field(0, 23), _days(), field(1, 12, MONTHS), _weekdays()).map(" ".join)
    six = st.builds("{} {}".format, field(0, 59), five)
    return five | six | st.sampled_from(sorted(MACROS))
