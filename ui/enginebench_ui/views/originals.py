"""Which model version a person means: copies for other batches are none of their own, and namesakes are told apart."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from enginebench_controller.records import Measurement, ModelVersion


def of_originals(measurements: Iterable[Measurement], models: Iterable[ModelVersion]) -> tuple[Measurement, ...]:
    """Return the measurements as those of the versions that the planner made copies of for other batches.

    Of versions with the same name each is named with the start of its digest. `models` are those of the store.
    """
    known = {model.digest: model for model in models}
    placed = [_of_original(one, known) for one in measurements]
    namesakes = Counter(name for name, _ in {(one.model_name, one.model_digest) for one in placed})
    return tuple(_told_apart(one) if namesakes[one.model_name] > 1 else one for one in placed)


def _of_original(one: Measurement, known: Mapping[str, ModelVersion]) -> Measurement:
    copy = known.get(one.model_digest)
    if copy is None or copy.original_digest == copy.digest:
        return one
    original = known.get(copy.original_digest)
    name = original.name if original else one.model_name.removesuffix(f"-batch{one.configuration.batch}")
    return replace(one, model_digest=copy.original_digest, model_name=name)


def _told_apart(one: Measurement) -> Measurement:
    return replace(one, model_name=f"{one.model_name} {one.model_digest[:6]}")
