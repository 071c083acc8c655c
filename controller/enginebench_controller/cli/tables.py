"""Records as tables for the terminal. Times are shown in milliseconds; unknown is shown as –."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.text import Text

from enginebench_controller.cli.console import plain, print_table, remark
from enginebench_controller.parity import requested_is_not_effective, unequal_settings
from enginebench_controller.records import (
    Configuration,
    Failure,
    Hint,
    Load,
    Measurement,
    Profile,
    Readback,
    Source,
    Status,
    TargetSnapshot,
)

UNKNOWN = "–"
SOURCE_MARKS = {Source.ENGINE_API: "", Source.OBSERVED: "°", Source.ASSUMED: "?"}
STYLES = {Status.OK: "green", Status.INCONCLUSIVE: "yellow", Status.FAILED: "red", Status.CANCELLED: "yellow"}


def print_measurements(title: str, measurements: Sequence[Measurement]) -> None:
    """A row a measurement, the flags and failures below."""
    several_targets = len({m.target for m in measurements}) > 1
    texts = ["model", "engine", "version", "environment", "device"]
    columns = [(heading, False) for heading in (["target"] if several_targets else []) + texts]
    columns += [("batch", True), ("cores", True), ("streams", True), ("load", False), ("precision", False)]
    columns += [("threads", True), ("median ms", True), ("p95 ms", True), ("items/s", True), ("status", False)]
    rows = [[m.target, *_row(m)] if several_targets else _row(m) for m in measurements]
    print_table(title, columns, rows)
    remark("precision and threads are effective values: ° observed, ? assumed, otherwise stated by the engine")
    for line in dict.fromkeys([*_remarks(measurements), *unequal_settings(measurements)]):
        remark(line)


def print_devices(snapshots: Iterable[TargetSnapshot], *, hidden: bool) -> None:
    """Targets → engines → devices, with the reason for each engine that is missing."""
    rows: list[list[object]] = []
    for snapshot in snapshots:
        for engine in snapshot.engines:
            if hidden or not engine["hidden"]:
                rows += _engine_rows(snapshot.target, engine)
    headings = ("target", "engine", "version", "environment", "device", "full name", "precisions")
    print_table("Devices", [(heading, False) for heading in headings], rows)


def print_profile(profile: Profile, most: int) -> None:
    """The layers of a profile, slowest first."""
    layers = sorted(profile.layers, key=lambda layer: -sum(layer.time_ns))[:most]
    total_ns = sum(sum(layer.time_ns) for layer in profile.layers) or None
    rows: list[list[object]] = [
        [
            layer.order,
            layer.name,
            layer.type,
            layer.kernel or UNKNOWN,
            layer.precision or UNKNOWN,
            _ms(sum(layer.time_ns) / len(layer.time_ns) if layer.time_ns else None),
            f"{100 * sum(layer.time_ns) / total_ns:.1f}" if total_ns and layer.time_ns else UNKNOWN,
            layer.state.replace("_", " "),
        ]
        for layer in layers
    ]
    title = f"{profile.name} on {profile.engine.name} {profile.engine.version}, {len(profile.layers)} layers"
    columns = [("#", True), ("layer", False), ("type", False), ("kernel", False), ("precision", False)]
    print_table(title, [*columns, ("mean ms", True), ("%", True), ("state", False)], rows)
    if profile.profiled_latency_ns and profile.unprofiled_latency_ns and profile.iterations and total_ns:
        ratio = profile.profiled_latency_ns / profile.unprofiled_latency_ns
        share = total_ns / profile.iterations / profile.profiled_latency_ns
        remark(f"profiled ÷ unprofiled latency {ratio:.2f}; Σ layers ÷ profiled latency {share:.2f}")


def failure_sentence(failure: Failure) -> str:
    """What happened, with the first line of the engine's own words."""
    words = failure.detail.strip().splitlines() or failure.stderr_tail.strip().splitlines()[-1:]
    own_words = f" ({words[0]})" if words else ""
    return f"{failure.kind}: {failure.message}{own_words}"


def instant(unix_ns: int) -> str:
    """An instant in the reader's time zone."""
    return datetime.fromtimestamp(unix_ns / 1e9, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _row(m: Measurement) -> list[object]:
    latency = m.latency
    chosen = m.configuration
    items = UNKNOWN if m.throughput_items_per_s is None else f"{m.throughput_items_per_s:.1f}"
    return [
        *(m.model_name, m.engine.name, m.engine.version or UNKNOWN, m.engine.environment, chosen.device),
        *(chosen.batch, chosen.cores, chosen.streams, _load(chosen), _readback(m.effective.precision)),
        _readback(m.effective.threads),
        _ms(latency.median_ns if latency else None),
        _ms(latency.p95_ns if latency else None),
        items,
        Text(m.status, style=STYLES[m.status]),
    ]


def _remarks(measurements: Sequence[Measurement]) -> Iterable[str]:
    for m in measurements:
        where = (
            f"{m.model_name} on {m.engine.name} {m.engine.version or ''} ({m.target}, batch {m.configuration.batch})"
        )
        if m.failure:
            yield f"  {m.status}: {where}: {failure_sentence(m.failure)}"
        for flag in requested_is_not_effective(m):
            yield f"  note: {where}: {flag}"


def _engine_rows(target: str, engine: Mapping[str, Any]) -> list[list[object]]:
    available = engine["available"]
    if available is None:
        reason = Text(f"unavailable: {plain(engine['unavailable']['reason'])}", style="yellow")
        return [[target, engine["name"], UNKNOWN, engine["environment"], UNKNOWN, reason, ""]]
    start = [target, engine["name"], available["version"], engine["environment"]]
    return [
        [*start, device["name"], device["full_name"] or UNKNOWN, ", ".join(device["precisions"])]
        for device in available["devices"]
    ]


def _load(chosen: Configuration) -> str:
    load = chosen.load if chosen.load is Load.SYNC else f"{chosen.load} {chosen.requests}"
    return load if chosen.hint is Hint.NONE else f"{load}, {chosen.hint}"


def _readback(readback: Readback | None) -> str:
    return UNKNOWN if readback is None else f"{readback.value}{SOURCE_MARKS[readback.source]}"


def _ms(value_ns: float | None) -> str:
    return UNKNOWN if value_ns is None else f"{value_ns / 1e6:.3f}"
