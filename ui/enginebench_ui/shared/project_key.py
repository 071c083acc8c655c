"""Projects in addresses: a model version on an engine on a target, as one short text such as `?a=KEY`.

MODELDIGEST12~ENGINE@ENVIRONMENT~TARGET, for instance `0bebac693939~onnxruntime@default~local`; behind it ~DEVICE where
that matters, too.
"""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace
from itertools import product

from enginebench_controller.records import Configuration, Measurement, ModelVersion
from enginebench_controller.records.model import lineage

DIGEST_CHARACTERS = 12

# Names come from plugins and imported results; what parts the key must not stand within a part.
_RESERVED = {"%": "%25", "~": "%7E", "@": "%40"}


def project_key(model_digest: str, engine: str, environment: str, target: str) -> str:
    """Return the key of a project; `model_digest` may be whole or its first 12 characters."""
    digest, engine, environment, target = map(_quoted, (model_digest, engine, environment, target))
    return f"{digest[:DIGEST_CHARACTERS]}~{engine}@{environment}~{target}"


def project_device_key(model_digest: str, engine: str, environment: str, target: str, device: str) -> str:
    """Return the key of a project on one device: what the page that compares calls a side."""
    return f"{project_key(model_digest, engine, environment, target)}~{device}"


def two_sides(measurements: Collection[Measurement], models: Collection[ModelVersion]) -> dict[str, str]:
    """Return what opens the comparison of the two projects that were measured; nothing where they are not two.

    A is the one that the other's model was made from, else the slower. `models` are all that the store knows. Each side
    stands for what was measured of it in the fastest configuration that both have, else for its fastest.
    """
    known = {model.digest: model for model in models}
    sides: defaultdict[str, list[Measurement]] = defaultdict(list)
    for one in measurements:
        if one.throughput_items_per_s is not None:
            digest = known[one.model_digest].original_digest if one.model_digest in known else one.model_digest
            engine = one.engine
            key = project_device_key(digest, engine.name, engine.environment, one.target, one.configuration.device)
            sides[key].append(one)
    if len(sides) != 2:
        return {}

    def place(key: str) -> tuple[int, float]:
        generation = min(len(list(lineage(one.model_digest, known))) for one in sides[key])
        return generation, max(one.throughput_items_per_s or 0.0 for one in sides[key])

    found = dict(zip("ab", sorted(sides, key=place), strict=True))
    points = _points(sides[found["a"]], sides[found["b"]])
    return found | {f"e{side}": one.id[:DIGEST_CHARACTERS] for side, one in zip("ab", points, strict=True)}


def _points(first: Collection[Measurement], second: Collection[Measurement]) -> tuple[Measurement, Measurement]:
    pairs = list(product(first, second))
    alike = [(a, b) for a, b in pairs if _without_options(a) == _without_options(b)]
    return max(alike or pairs, key=lambda pair: sum(one.throughput_items_per_s or 0.0 for one in pair))


def _without_options(one: Measurement) -> Configuration:
    """Options are an engine's own."""
    return replace(one.configuration, options={})


def _quoted(part: str) -> str:
    for character, escape in _RESERVED.items():
        part = part.replace(character, escape)
    return part
