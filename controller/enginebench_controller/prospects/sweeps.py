"""Sweeps: the orders whose passes impose sparsity on a model step by step, found among the profiles that are listed."""

from collections.abc import Iterable, Sequence

from enginebench_controller.store.profile_entries import ProfileEntry

Sweep = tuple[ProfileEntry, ...]
"""All passes of one order in the order they ran: the dense one, those with zeros imposed, and pruned copies."""


def sweeps(entries: Iterable[ProfileEntry]) -> tuple[Sweep, ...]:
    """Every sweep among `entries`, which are newest first, as the sweeps are."""
    orders: dict[str, list[ProfileEntry]] = {}
    for entry in entries:
        if entry.order_id:
            orders.setdefault(entry.order_id, []).append(entry)
    return tuple(tuple(reversed(passes)) for passes in orders.values() if any(one.imposed_sparsity for one in passes))


def sweep_for(entries: Sequence[ProfileEntry], subject: ProfileEntry) -> Sweep:
    """The sweep that tells of the subject: its own, else one over its model on its target with its engine.

    One with the same batch and cores goes before others, then the newest. Empty where there is none.
    """
    found = [passes for passes in sweeps(entries) if any(_is_about(one, subject) for one in passes)]
    return min(found, key=lambda passes: _distance(passes, subject), default=())


def _is_about(entry: ProfileEntry, subject: ProfileEntry) -> bool:
    return bool(entry.imposed_sparsity) and _subject(entry) == _subject(subject)


def _subject(entry: ProfileEntry) -> tuple[str, str, str]:
    return entry.model_digest, entry.engine.name, entry.target


def _distance(passes: Sweep, subject: ProfileEntry) -> tuple[bool, bool]:
    first = passes[0]
    return first.order_id != subject.order_id, (first.batch, first.cores) != (subject.batch, subject.cores)
