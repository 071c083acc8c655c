"""What enginebench needs with some extras, followed to the end, in the versions of constraints.txt.

`python deploy/needed.py all`, where that is installed, prints a requirement a line: what `make dist` lists in the SBOM.
"""

import re
import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
PINS = {
    canonicalize_name(name): version
    for name, version in re.findall(r"^([\w.-]+)==(\S+)$", CONSTRAINTS.read_text(encoding="utf-8"), re.M)
}


def needed(name: str, extras: frozenset[str] = frozenset()) -> Iterator[tuple[str, Requirement]]:
    """Every requirement that counts here, with who asks for it."""
    asked, waiting = set(), [(name, extras)]
    while waiting:
        who, of = waiting.pop()
        if (who, of) in asked:
            continue
        asked.add((who, of))
        for requirement in map(Requirement, distribution(who).requires or ()):
            environments = [{"extra": extra} for extra in of or {""}]
            if requirement.marker is None or any(requirement.marker.evaluate(one) for one in environments):
                yield who, requirement
                waiting.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))


def names(*extras: str) -> set[str]:
    """All that it takes, without enginebench itself."""
    found = needed("enginebench", frozenset(extras))
    return {canonicalize_name(requirement.name) for _, requirement in found} - {"enginebench"}


if __name__ == "__main__":
    print("\n".join(f"{name}=={PINS[name]}" for name in sorted(names(*sys.argv[1:]))))
