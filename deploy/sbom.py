"""What enginebench needs with all engines and pages, followed to the end, and the SBOM of a release made of it.

`python deploy/sbom.py FILE`, where the extra `all` is installed, takes what cyclonedx-py found in that environment,
leaves out what is there for other reasons (tools of development), and prints the rest, which is CycloneDX again.
"""

import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

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


def only_needed(found: dict[str, Any]) -> dict[str, Any]:
    """The SBOM of an environment without what `enginebench[all]` does not need. The root is enginebench itself."""
    wanted = names("all")
    kept = [one for one in found["components"] if canonicalize_name(one["name"]) in wanted]
    told = {one["bom-ref"] for one in kept}
    ours = found["metadata"]["component"]["bom-ref"]
    own = {
        canonicalize_name(one.name) for who, one in needed("enginebench", frozenset({"all"})) if who == "enginebench"
    }
    direct = {one["bom-ref"] for one in kept if canonicalize_name(one["name"]) in own}
    depends = [
        one
        | {"dependsOn": [ref for ref in one.get("dependsOn", ()) if ref in (direct if one["ref"] == ours else told)]}
        for one in found["dependencies"]
        if one["ref"] in told | {ours}
    ]
    return found | {"components": kept, "dependencies": depends}


if __name__ == "__main__":
    environment = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    print(json.dumps(only_needed(environment), indent=2))
