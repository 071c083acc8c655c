"""The head of a profile: the others of its model, what was run and how, how fast it was and may be, and its work."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from enginebench_controller.graph.analysis import CountedModel
from enginebench_controller.graph.flops.work import sum_or_none
from enginebench_controller.records import ModelVersion, ModelWork, Profile, ProfileEntry, ProfileNode
from enginebench_controller.records.configuration import cores_in_words
from enginebench_controller.records.profile import is_at_most
from enginebench_controller.stats import layers as figures
from enginebench_controller.verdicts.host_words import processor_of
from enginebench_controller.verdicts.pruning.estimate import uniform
from enginebench_controller.verdicts.pruning.policy import Policy
from enginebench_controller.verdicts.pruning.prospects import (
    PruningOutcome,
    PruningProspects,
    flops_left,
    parameters_left,
)
from enginebench_ui.shared.text import (
    UNKNOWN,
    choice_labels,
    engine_label,
    engine_text,
    instant,
    items_per_s,
    magnitude,
    milliseconds_text,
    percent_text,
    readback,
    shortened,
    times_text,
)

MOST = 200
"""Profiles in the choice, the newest; the list has all."""


@dataclass(frozen=True)
class Sibling:
    """A profile in the choice: `key` is its id or "flops", `query` what opens it; the label is plain text."""

    key: str
    label: str
    query: Mapping[str, str]


FLOPS_KEY = "flops"


def siblings(entry: ProfileEntry, entries: Iterable[ProfileEntry]) -> tuple[Sibling, ...]:
    """Return the profiles of the same model, newest first, this one among them, and the theoretical one."""
    own = [one for one in entries if one.model_digest == entry.model_digest]
    shown = own[:MOST] if entry in own[:MOST] else [entry, *own[: MOST - 1]]
    return (*_measured(shown), _theoretical(entry.model_digest))


def siblings_of_model(model: ModelVersion, entries: Iterable[ProfileEntry]) -> tuple[Sibling, ...]:
    """Return the theoretical profile of a model, and the measured ones, newest first."""
    own = [one for one in entries if one.model_digest == model.digest]
    return (_theoretical(model.digest), *_measured(own[:MOST]))


def _measured(entries: Iterable[ProfileEntry]) -> Iterable[Sibling]:
    labels = choice_labels({one.id: _label(one) for one in entries})
    return (Sibling(identity, label, {"id": identity}) for identity, label in labels.items())


def _label(entry: ProfileEntry) -> str:
    zeros = f"{100 * entry.imposed_sparsity:g} % zeros" if entry.imposed_sparsity is not None else ""
    parts = (
        shortened(entry.name, 32) or "unnamed",
        engine_text(entry),
        f"batch {entry.batch}",
        cores_in_words(entry.cores, entry.cluster),
        zeros,
        "" if entry.status.has_numbers else entry.status.value,
        instant(entry.created_at_unix_ns),
    )
    return " · ".join(filter(None, parts))


def _theoretical(digest: str) -> Sibling:
    return Sibling(FLOPS_KEY, "FLOPS · counted in the model, in theory", {"model": digest})


GOAL = Policy().goal
"""The share of zeros that an estimate is for where no copy was pruned layer by layer: Sparsify's goal."""


@dataclass(frozen=True)
class SummaryCard:
    """A large figure: what it is, the value with its unit, what stands below it, and how it is known."""

    label: str
    value: str
    below: str = ""
    known_from: str = ""


def measured_cards(profile: Profile, prospects: PruningProspects | None) -> tuple[SummaryCard, ...]:
    """Return the measured speed, the estimated one where there is a sweep, FLOPs and parameters."""
    chosen = None if prospects is None else chosen_outcome(prospects)
    return (
        _speed(profile),
        *(() if chosen is None else (_estimated(chosen, profile),)),
        *work_cards(profile.work, profile.nodes, chosen),
    )


def work_cards(
    work: ModelWork | None, nodes: Sequence[ProfileNode], chosen: PruningOutcome | None = None
) -> tuple[SummaryCard, ...]:
    """Return FLOPs and parameters, dense and pruned: with the zeros of the sweep's outcome, else the same everywhere.

    All are counted in these nodes: a sweep may have run at another batch, whose FLOPs are others.
    """
    if work is None:
        return (SummaryCard("FLOPs", UNKNOWN), SummaryCard("Parameters", UNKNOWN))
    share = GOAL if chosen is None else chosen.sparsity
    sparsities = uniform(nodes, GOAL) if chosen is None else chosen.sparsities
    flops = flops_left(work.flops, nodes, sparsities) if nodes else None
    parameters = parameters_left(work.parameters, nodes, sparsities) if nodes else None
    known = "" if work.coverage in (None, 1) else f" Known for {percent_text(work.coverage)} of the nodes."
    bound = is_at_most(nodes)
    if bound:
        known += " At most: which branch of an If runs is decided by the data, and the larger one counts."
    if work.flops is None and (unknown := dict.fromkeys(node.op_type for node in nodes if node.macs is None)):
        known += f" Unknown, as {', '.join(unknown)} may have most of it; `enginebench flops` says why."
    zeros = f"{percent_text(share, 0)} zeros"
    return (
        SummaryCard(
            "FLOPs, dense",
            f"{'≤ ' if bound else ''}{magnitude(work.flops, 'FLOP')}",
            f"{magnitude(flops, 'FLOP')} with {zeros}, estimated",
            f"Counted in the model: a multiply-add is 2.{known} Pruned is an estimate, linear in the zeros: {zeros}.",
        ),
        SummaryCard(
            "Parameters, dense",
            magnitude(work.parameters),
            f"{magnitude(parameters)} with {zeros}{_zero_now(work)}",
            f"Counted in the model, each weight once. Pruned: those that are not zero with {zeros}.",
        ),
    )


def chosen_outcome(prospects: PruningProspects) -> PruningOutcome | None:
    """The outcome that a summary tells: a copy pruned layer by layer, else the step nearest to the goal.

    None where nobody knows which layers have the zeros.
    """
    pruned = [one for one in prospects.outcomes if one.sparsities and one.sparsity]
    by_layer = [one for one in pruned if one.is_copy and one.imposed_ns is None]
    if by_layer:
        return by_layer[0]
    steps = [one for one in pruned if not one.is_copy]
    return min(steps, key=lambda one: abs((one.sparsity or 0.0) - GOAL), default=None)


def estimate_basis(chosen: PruningOutcome) -> str:
    """How the estimate came about, in one sentence."""
    estimate, level = chosen.estimate, chosen.profile.optimization_level
    where = "" if level is None else f" at optimization level {level}"
    zeros = percent_text(chosen.sparsity, 0)
    unknown = estimate.unknown_share if estimate else 0.0
    part = f"; {percent_text(unknown)} of the time has weights whose saving nobody knows" if unknown else ""
    how = "shared out layer by layer" if chosen.is_copy else "the same in every layer"
    return (
        f"Estimated from passes with zeros imposed{where}, where the dense model took "
        f"{milliseconds_text(chosen.dense_ns)}: {zeros} zeros, {how}{part}. "
        "Nothing ran like that, and what the answers are worth takes a retraining to say."
    )


def facts(profile: Profile) -> tuple[tuple[str, str], ...]:
    """Return (heading, raw text) pairs: what ran where and how."""
    asked, got = profile.configuration, profile.effective
    return (
        ("Batch", str(asked.batch)),
        ("Cores", str(asked.place)),
        ("Instruction sets", _instruction_sets(profile)),
        ("Engine", engine_label(profile)),
        ("Device", asked.device),
        ("Precision", f"{readback(got.precision)}, asked for {asked.precision}"),
        ("Threads", readback(got.threads)),
        ("Target", f"{profile.target}, {processor_of(profile.host) or UNKNOWN}"),
        ("Run", f"{instant(profile.created_at_unix_ns)}, {_inferences(profile)}"),
        *((("Engine options", _options(profile)),) if asked.options else ()),
        *((("Prepared", "; ".join(got.prepared)),) if got.prepared else ()),
    )


def trust_facts(profile: Profile) -> tuple[tuple[str, str], ...]:
    """Return (heading, raw text) pairs: how far the figures can be trusted, and what memory it took."""
    return (
        ("What counters cost", _ratio(figures.profiled_to_unprofiled(profile), "the latency without them")),
        ("Σ layers ÷ latency", figures.layers_to_latency_words(profile) or UNKNOWN),
        ("Led back to the model", _coverage(profile)),
        ("Memory", f"model {magnitude(profile.model_size_bytes, 'B')}, peak {magnitude(profile.peak_rss_bytes, 'B')}"),
    )


def _speed(profile: Profile) -> SummaryCard:
    latency = profile.unprofiled_latency_ns
    source = "median of single inferences without the engine's counters"
    if latency is None:  # passes of a sweep are timed with counters only
        latency, source = (
            profile.profiled_latency_ns,
            "median of inferences with the engine's counters, which cost time",
        )
    if latency is None:
        return SummaryCard("Measured", UNKNOWN)
    rate = items_per_s(profile.configuration.batch, latency)
    per = "ms/batch"
    return SummaryCard(
        "Measured",
        f"{milliseconds_text(latency).removesuffix(' ms')} {per}",
        f"{magnitude(rate)} items/s",
        f"Measured: the {source}. For a figure with an interval, run a benchmark.",
    )


def _estimated(chosen: PruningOutcome, shown: Profile) -> SummaryCard:
    """The estimate, beside the time that it starts from: that of a sweep's dense pass is seldom the one measured."""
    estimate = chosen.estimate
    if estimate is None:
        known_from = "The dense pass of the sweep has no times of the model's parts."
        return SummaryCard("Estimated, pruned", UNKNOWN, known_from=known_from)
    value = f"{milliseconds_text(estimate.time_ns).removesuffix(' ms')} ms/batch"
    dense = f"the sweep's {milliseconds_text(chosen.dense_ns)} dense{_elsewhere(chosen.profile, shown)}"
    below = f"{times_text(estimate.speedup)} as fast as {dense}, with {percent_text(chosen.sparsity, 0)} zeros"
    return SummaryCard("Estimated, pruned", value, below, estimate_basis(chosen))


def _elsewhere(swept: Profile, shown: Profile) -> str:
    """What the sweep ran with that the profile shown did not."""
    one, other = swept.configuration, shown.configuration
    differing = [
        *([f"batch {one.batch}"] if one.batch != other.batch else []),
        *([one.cores_in_words] if one.place != other.place else []),
        *([engine_label(swept)] if swept.engine != shown.engine else []),
    ]
    return f" at {', '.join(differing)}" if differing else ""


def _zero_now(work: ModelWork) -> str:
    if work.parameters is None or work.nonzero_parameters is None or work.nonzero_parameters == work.parameters:
        return ""
    return f", {magnitude(work.nonzero_parameters)} not zero now"


def _instruction_sets(profile: Profile) -> str:
    offered = ", ".join(profile.host.isa)
    used = profile.effective.isa
    if used is None:
        return f"machine has {offered}" if offered else UNKNOWN
    return f"{readback(used)}" + (f"; machine has {offered}" if offered else "")


def _inferences(profile: Profile) -> str:
    if profile.iterations is None:
        return UNKNOWN
    return f"{'means of ' if profile.tells_means else ''}{profile.iterations} profiled inferences"


def _ratio(value: float | None, of: str) -> str:
    return UNKNOWN if value is None else f"{value:.2f} × {of}"


def _coverage(profile: Profile) -> str:
    coverage = profile.coverage
    if coverage is None:
        return f"nothing: {profile.unmatched_reason}" if profile.unmatched_reason else UNKNOWN
    largest = percent_text(coverage.largest_group_share)
    return f"{percent_text(coverage.share)} of the time; largest group {largest} of the nodes"


def _options(profile: Profile) -> str:
    return ", ".join(f"{name}={value}" for name, value in profile.configuration.options.items())


def theory_facts(counted: CountedModel) -> tuple[tuple[str, str], ...]:
    """Return (heading, raw text) pairs of a model that was only counted."""
    work, running = counted.work, [node for node in counted.nodes if not node.folded]
    unknown = [node.op_type for node in running if node.flops is None]
    # Of a part of the operations it would be too low.
    intensity = None if unknown else figures.ratio(work.flops, sum_or_none((work.weight_bytes, work.activation_bytes)))
    return (
        ("Batch", str(counted.batch)),
        ("Nodes", f"{len(running)}, and {len(counted.nodes) - len(running)} that depend on no input"),
        ("Multiply-adds", magnitude(work.macs)),
        ("Weights", magnitude(work.weight_bytes, "B")),
        ("Activations, once a node", magnitude(work.activation_bytes, "B")),
        ("Intensity", magnitude(intensity, "FLOP/byte")),
        ("Unknown work", ", ".join(dict.fromkeys(unknown)) or "none: the work of every node is known"),
        *(("Assumed", sentence) for sentence in counted.assumptions),
    )
