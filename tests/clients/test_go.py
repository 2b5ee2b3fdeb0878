"""The Go client's own checks, which its folder also runs by hand. Skipped where there is no Go."""

import os
import subprocess
import sys
import warnings
from pathlib import Path
from shutil import which

import pytest

CLIENT = Path(__file__).parents[2] / "clients" / "go"

pytestmark = pytest.mark.skipif(which("go") is None, reason="there is no go on the PATH")


def run(*command: str) -> str:
    """What a command prints, run in the client's folder with this environment's server."""
    environment = os.environ | {"TOKENLOOM_PYTHON": sys.executable}
    done = subprocess.run(command, cwd=CLIENT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def toolchain() -> None:
    """Skips where go is older than the client needs and may not get itself a newer one."""
    done = subprocess.run(["go", "version"], cwd=CLIENT, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(done.stderr.strip())


def test_sources_are_formatted() -> None:
    assert run("gofmt", "-l", ".") == ""


def test_vet_finds_nothing() -> None:
    run("go", "vet", "./...")


def test_its_tests_pass() -> None:
    # The race detector needs cgo, and that a C compiler. -count=1: Go does not see that the server has changed.
    race = ["-race"] if which(os.environ.get("CC", "gcc")) else []
    if not race:
        warnings.warn("there is no C compiler: the Go tests run without the race detector", stacklevel=1)
    run("go", "test", *race, "-count=1", "-timeout=5m", "./...")
