"""What is unread, and since when."""

from __future__ import annotations

from tableflow_assets.follow.backlog import MOST_MARKS, Backlog


def test_until_the_table_was_asked_everything_counts_as_unread() -> None:
    backlog = Backlog()
    backlog.see({0: 1}, now=1)
    assert (backlog.is_known, backlog.waiting_since) == (False, 1)


def test_an_empty_topic_gets_its_table_with_its_first_record() -> None:
    backlog = Backlog()
    backlog.see({0: 0, 1: 0}, now=1)
    assert backlog.waiting_since is None


def test_a_table_at_the_end_of_its_log_leaves_nothing_unread() -> None:
    backlog = Backlog()
    backlog.see({0: 5, 1: 2}, now=1)
    backlog.settle({0: 5, 1: 2})
    assert (backlog.is_known, backlog.waiting_since) == (True, None)


def test_what_came_during_a_turn_waits_since_it_was_first_seen() -> None:
    backlog = Backlog()
    for now, end in ((1, 5), (2, 7), (3, 9)):
        backlog.see({0: end}, now)
    backlog.settle({0: 6})  # planned between the first look and the second
    assert backlog.waiting_since == 2
    backlog.settle({0: 9})
    assert backlog.waiting_since is None


def test_one_partition_that_lags_is_enough() -> None:
    backlog = Backlog()
    backlog.see({0: 5, 1: 5}, now=1)
    backlog.settle({0: 5, 1: 4})
    assert backlog.waiting_since == 1


def test_a_partition_that_was_added_is_unread_from_its_first_record() -> None:
    backlog = Backlog()
    backlog.settle({0: 5})
    backlog.see({0: 5, 1: 0}, now=1)
    assert backlog.waiting_since is None
    backlog.see({0: 5, 1: 1}, now=2)
    assert backlog.waiting_since == 2


def test_a_log_that_ends_before_the_table_is_looked_into() -> None:
    """Truncated, or made anew: planning says which, and what to do."""
    backlog = Backlog()
    backlog.settle({0: 9})
    backlog.see({0: 3}, now=4)
    assert backlog.waiting_since == 4


def test_a_topic_that_cannot_be_read_for_hours_takes_no_more_room() -> None:
    backlog = Backlog()
    for now in range(10 * MOST_MARKS):
        backlog.see({0: now + 1}, now)
    assert backlog.waiting_since == 0
    backlog.settle({0: 10 * MOST_MARKS})
    assert backlog.waiting_since is None


def test_what_is_unread_is_counted_from_what_the_table_has() -> None:
    backlog = Backlog()
    backlog.see({0: 5, 1: 2}, now=1)
    assert backlog.unread == 7
    backlog.settle({0: 4, 1: 2})
    assert backlog.unread == 1
    backlog.see({0: 9, 1: 3}, now=2)
    assert backlog.unread == 6
    backlog.settle({0: 9, 1: 3})
    assert backlog.unread == 0


def test_a_record_may_have_waited_since_before_it_was_first_seen_but_not_since_later() -> None:
    backlog = Backlog()
    backlog.has_waited_since(5)
    assert backlog.waiting_since is None
    backlog.see({0: 5}, now=10)
    for moment, since in ((12, 10), (4, 4)):
        backlog.has_waited_since(moment)
        assert backlog.waiting_since == since
