"""Lists a page at a time. A token names the last item of the page before: items may come and go meanwhile."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from typing import TypeVar

from runtime.errors import InvalidArgument

DEFAULT_PAGE_SIZE = 100
MAX_PAGE_SIZE = 1000
_PREFIX = b"after:"

Item = TypeVar("Item")


def page(items: Iterable[Item], name: Callable[[Item], str], size: int, token: str) -> tuple[list[Item], str]:
    """The items of a page, by name, and the token of the next page: empty on the last. `size` 0 is the default."""
    if size > MAX_PAGE_SIZE:
        raise InvalidArgument("page_size", size, f"an integer in [1, {MAX_PAGE_SIZE}], or 0 for {DEFAULT_PAGE_SIZE}")
    after = _name_in(token) if token else ""
    rest = sorted((item for item in items if name(item) > after), key=name)
    taken = rest[: size or DEFAULT_PAGE_SIZE]
    return taken, _token_of(name(taken[-1])) if len(taken) < len(rest) else ""


def _token_of(name: str) -> str:
    return base64.urlsafe_b64encode(_PREFIX + name.encode()).decode()


def _name_in(token: str) -> str:
    try:
        decoded = base64.b64decode(token, altchars=b"-_", validate=True)
        if decoded.startswith(_PREFIX):
            return decoded[len(_PREFIX) :].decode()
    except ValueError:
        pass
    raise InvalidArgument("page_token", token, "the next_page_token of an answer")
