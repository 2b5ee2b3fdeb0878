"""The command line: `tokenloom`. Commands talk to a server through the Python client; only `serve` runs models."""

from service.cli.app import main

__all__ = ["main"]
