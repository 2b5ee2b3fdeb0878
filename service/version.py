"""The server's version, as installed."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("tokenloom-server")
except PackageNotFoundError:  # run from a source tree that is not installed
    VERSION = "0+unknown"
