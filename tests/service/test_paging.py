"""Pages stay right while items come and go."""

from __future__ import annotations

import pytest

from runtime.errors import InvalidArgument
from service.paging import page


def names(items: list[str], size: int = 0, token: str = "") -> tuple[list[str], str]:
    return page(items, lambda item: item, size, token)


def test_pages_together_are_all_items_by_name() -> None:
    items = [f"item-{index:03}" for index in range(250)]
    seen, token = [], ""
    for _ in range(3):
        taken, token = names(items[::-1], 100, token)
        seen += taken
    assert seen == items
    assert token == ""


def test_the_default_size_is_100() -> None:
    taken, token = names([f"{index:03}" for index in range(101)])
    assert len(taken) == 100
    assert token


def test_items_that_come_and_go_change_no_later_page() -> None:
    first, token = names(["a", "c", "e", "g"], 2)
    assert first == ["a", "c"]
    assert names(["b", "d", "e", "g"], 2, token) == (["d", "e"], names(["e", "g"], 1)[1])


def test_a_page_that_takes_the_last_item_has_no_next() -> None:
    assert names(["a", "b"], 2) == (["a", "b"], "")
    assert names([]) == ([], "")


@pytest.mark.parametrize("token", ["x", "!!!!", "YWJj", "YWZ0ZXI6/w==", "\N{SNOWMAN}"])
def test_tokens_that_are_none_are_refused(token: str) -> None:
    with pytest.raises(InvalidArgument, match="page_token"):
        names(["a"], 1, token)


def test_sizes_out_of_range_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="page_size"):
        names(["a"], 1001)
