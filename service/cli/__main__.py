"""`python -m service.cli` is `tokenloom`."""

from service.cli import main

main()
