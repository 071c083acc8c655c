"""Profiles as public JSON documents, described in docs/profiles.md; the rules are those of benchmarks.py."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from enginebench_controller.documents.benchmarks import Document, subject_document
from enginebench_controller.model.layer_rooflines import rooflines
from enginebench_controller.model.roofline import Roofline
from enginebench_controller.records import Coverage, Layer, Peak, Profile, ProfileNode
from enginebench_controller.records.json_form import INTERVAL, PHASES, finite
from enginebench_controller.stats import profiles as figures

PROFILES_VERSION = 2
"""2: layers say what they were matched to, and a profile has nodes, work, coverage and figures."""

KIND = "enginebench-profiles"


def profiles_document(profiles: Iterable[Profile], peaks: Sequence[Peak] = ()) -> Document:
    """Describe whole profiles; `peaks` are those of their targets."""
    return {
        "schema_version": PROFILES_VERSION,
        "kind": KIND,
        "profiles": [profile_document(profile, peaks) for profile in profiles],
    }


def profile_list_document(profiles: Iterable[Profile]) -> Document:
    """Describe profiles as a list, without what takes their layers or nodes to tell."""
    return {"schema_version": PROFILES_VERSION, "profiles": [_heading(profile) for profile in profiles]}


def profile_document(profile: Profile, peaks: Sequence[Peak] = ()) -> Document:
    """Describe a profile with its figures, its layers in the order of execution, and the nodes of its model."""
    total = figures.total_ns(profile.layers)
    places = rooflines(profile, peaks)
    return {
        **_heading(profile),
        "figures": {
            "layers_ns": total,
            "layers_to_latency": figures.layers_to_latency(profile),
            "profiled_to_unprofiled": figures.profiled_to_unprofiled(profile),
        },
        "phases": PHASES.to_data(profile.phases),
        "host": finite(profile.host),
        "plan": finite(profile.plan),
        "types": [asdict(one) for one in figures.by_type(profile.layers)],
        "layers": [_layer(layer, total, place) for layer, place in zip(profile.layers, places, strict=True)],
        "nodes": _nodes(profile.nodes),
    }


def _heading(profile: Profile) -> Document:
    return {
        **subject_document(profile),
        "name": profile.name,
        "order_id": profile.order_id,
        "imported": profile.imported,
        "created_at_unix_ns": profile.created_at_unix_ns,
        "kind": profile.kind.value,
        "imposed_sparsity": profile.imposed_sparsity,
        "optimization_level": profile.optimization_level,
        "iterations": profile.iterations,
        "profiled_latency_ns": profile.profiled_latency_ns,
        "unprofiled_latency_ns": profile.unprofiled_latency_ns,
        "coverage": _coverage(profile.coverage),
        "unmatched_reason": profile.unmatched_reason or None,
        "work": asdict(profile.work) if profile.work else None,
        "model_size_bytes": profile.model_size_bytes,
        "peak_rss_bytes": profile.peak_rss_bytes,
    }


def _coverage(coverage: Coverage | None) -> Document | None:
    return None if coverage is None else {**asdict(coverage), "matched_share": coverage.share}


def _layer(layer: Layer, total_ns: float | None, place: Roofline | None) -> Document:
    return {
        "name": layer.name,
        "type": layer.type,
        "order": layer.order,
        "state": layer.state.value,
        "mean_ns": figures.mean_ns(layer),
        "interval": INTERVAL.to_data(figures.interval(layer)),
        "share": figures.share(layer, total_ns),
        "flops": layer.flops,
        "data_bytes": layer.data_bytes,
        "roofline": finite(asdict(place)) if place else None,
        "time_ns": list(layer.time_ns),
        "calls": layer.calls,
        "kernel": layer.kernel or None,
        "precision": layer.precision or None,
        "output_shapes": [list(shape) for shape in layer.output_shapes],
        "source_nodes": list(layer.source_nodes),
        "inputs": list(layer.inputs),
        "outputs": list(layer.outputs),
        "parameters": dict(layer.parameters),
        "category": layer.category or None,
        "group": layer.group,
    }


def _nodes(nodes: Sequence[ProfileNode]) -> list[Document]:
    return [{**finite(asdict(node)), "state": node.state or None} for node in nodes]
