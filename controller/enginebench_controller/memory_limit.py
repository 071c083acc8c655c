"""The most memory that the kernel lets this process have, where it lets itself be told."""

import resource
from contextlib import suppress


def limit_memory(kind: int, most_bytes: int, *, for_good: bool = True) -> None:
    """Hold this process to so many bytes of `kind` (`RLIMIT_AS`, `RLIMIT_DATA`), or to less where it may not have them.

    What is not `for_good` can be set anew. Where the system refuses the limit, there is none.
    """
    _, highest = resource.getrlimit(kind)
    if highest != resource.RLIM_INFINITY:
        most_bytes = min(most_bytes, highest)
    # On Apple's processors macOS maps some 390 GiB into each process, and refuses a limit below what is mapped
    # (EINVAL): there the limit of time alone bounds what is read, asked or converted.
    with suppress(ValueError):
        resource.setrlimit(kind, (most_bytes, most_bytes if for_good else highest))
