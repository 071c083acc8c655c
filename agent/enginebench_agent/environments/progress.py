"""What is going on, told on standard error."""

import sys


def tell(text: str) -> None:
    """Print one line of progress."""
    print(text, file=sys.stderr, flush=True)  # standard output is for data
