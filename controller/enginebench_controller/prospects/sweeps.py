"""Sweeps: the passes that impose sparsity on a model step by step, found among the profiles that are listed."""

from collections.abc import Iterable, Iterator, Sequence

from enginebench_controller.store.profile_entries import ProfileEntry

Sweep = tuple[ProfileEntry, ...]
"""Passes of one order over one model in one configuration, in the order they ran: the dense one, those with zeros
imposed, and pruned copies."""


def sweeps(entries: Iterable[ProfileEntry]) -> tuple[Sweep, ...]:
    """Every sweep among `entries`, which are newest first, as the sweeps are."""
    return tuple(passes for passes in imposed_passes(entries) if any(one.imposed_sparsity for one in passes))


def imposed_passes(entries: Iterable[ProfileEntry]) -> Iterator[Sweep]:
    """The sweeps, and those of which only the dense pass was asked for or is left.

    An order may have several: one command profiles on 1 and on 2 cores, and the times of these are not compared.
    """
    orders: dict[tuple[object, ...], list[ProfileEntry]] = {}
    for entry in entries:
        if entry.order_id:
            orders.setdefault(_setting(entry), []).append(entry)
    for passes in orders.values():
        # A pruned copy has a digest of its own; an order that makes copies is about one model.
        for digest in dict.fromkeys(one.model_digest for one in passes if one.imposed_sparsity is not None):
            own = (one for one in reversed(passes) if one.imposed_sparsity is None or one.model_digest == digest)
            yield tuple(own)


def sweep_for(entries: Sequence[ProfileEntry], subject: ProfileEntry) -> Sweep:
    """The sweep that tells of the subject: its own, else one over its model on its target with its engine.

    One with the same batch and cores goes before others, then the newest. Empty where there is none.
    """
    found = [passes for passes in sweeps(entries) if any(_is_about(one, subject) for one in passes)]
    return min(found, key=lambda passes: _distance(passes, subject), default=())


def _setting(entry: ProfileEntry) -> tuple[object, ...]:
    place = (entry.order_id, entry.target, entry.engine.name, entry.engine.environment)
    return (*place, entry.device, entry.batch, entry.cores, entry.precision)


def _is_about(entry: ProfileEntry, subject: ProfileEntry) -> bool:
    return bool(entry.imposed_sparsity) and _subject(entry) == _subject(subject)


def _subject(entry: ProfileEntry) -> tuple[str, str, str]:
    return entry.model_digest, entry.engine.name, entry.target


def _distance(passes: Sweep, subject: ProfileEntry) -> tuple[bool, bool]:
    first = passes[0]
    return subject not in passes, (first.batch, first.cores) != (subject.batch, subject.cores)
