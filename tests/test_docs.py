"""The documents say what the code does."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
REASON = re.compile(
    r"""(?:reason(?::\ str)?\ ?=\ ?|(?:FailedPrecondition|ResourceExhausted|Unavailable)\(\s*)"([A-Z][A-Z_]+)\"""",
    re.VERBOSE,
)
STORE_ONLY = {"DOWNLOAD_FAILED", "DOWNLOAD_DAMAGED"}
"""Reasons that only the command line meets, in its own process."""


def test_every_reason_in_the_code_is_in_the_error_table() -> None:
    sources = [path.read_text() for package in ("runtime", "service") for path in (ROOT / package).rglob("*.py")]
    used = {reason for source in sources for reason in REASON.findall(source)}
    documented = set(
        re.findall(
            r"\b[A-Z]{2,}_[A-Z_]+\b|\b(?:CANCELLED|DRAINING|STOPPED|INTERNAL|UNIMPLEMENTED)\b",
            (ROOT / "docs/errors.md").read_text(),
        )
    )
    assert len(used) > 20
    assert used - STORE_ONLY <= documented
