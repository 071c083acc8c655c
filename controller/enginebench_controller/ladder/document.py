"""A ladder as JSON-able data: unknown values and rungs that are not available are null, never 0."""

from collections.abc import Iterable
from typing import Any

from enginebench_controller.documents.benchmarks import engine_document
from enginebench_controller.ladder.results import Gain, Ladder, RungResult
from enginebench_controller.records import Interval, Measurement, ModelVersion
from enginebench_controller.records.json_form import OUTPUT_CHECK
from enginebench_controller.trust.parity import flags, marks
from enginebench_controller.trust.soundness import soundness

SCHEMA_VERSION = 1


def ladder_document(ladder: Ladder, models: Iterable[ModelVersion] = ()) -> dict[str, Any]:
    """The document that `enginebench ladder … --json` prints; its form is in docs/ladder.md.

    `models`, all those of the store, tell which versions are to compute the same.
    """
    best = ladder.best
    return {
        "schema_version": SCHEMA_VERSION,
        "ladder": str(ladder.kind),
        "benchmark": {"id": ladder.benchmark.id, "name": ladder.benchmark.name},
        "target": next((one.target for one in ladder.measurements), None),
        "best": best.name if best else None,
        "rungs": [_rung(rung) for rung in ladder.rungs],
        "remarks": list(ladder.remarks),
        "outcome": soundness(ladder.measurements, models).document,
    }


def _rung(rung: RungResult) -> dict[str, Any]:
    measurement = rung.measurement
    return {
        "rung": rung.name,
        "title": rung.title,
        "available": measurement is not None,
        "reason": rung.reason,
        "status": str(measurement.status) if measurement else None,
        "first_inference_s": None if rung.first_inference_ns is None else rung.first_inference_ns / 1e9,
        "seconds_per_image": rung.seconds_per_image,
        "fps": rung.fps,
        "fps_interval": _interval(rung.fps_interval, 1.0),
        "latency_ms": None if rung.latency_ns is None else rung.latency_ns / 1e6,
        "latency_interval_ms": _interval(rung.latency_interval, 1e-6),
        "gain_over_previous": _gain(rung.gain_over_previous),
        "gain_over_first": _gain(rung.gain_over_first),
        "output_check": OUTPUT_CHECK.to_data(rung.output_check),
        "measurement": _measurement(measurement) if measurement else None,
    }


def _measurement(one: Measurement) -> dict[str, Any]:
    chosen = one.configuration
    return {
        "id": one.id,
        "engine": engine_document(one.engine),
        "model": {"name": one.model_name, "digest": one.model_digest},
        "device": chosen.device,
        "batch": chosen.batch,
        "cores": chosen.cores,
        "load": str(chosen.load),
        "requests": chosen.requests,
        "hint": str(chosen.hint),
        "precision": chosen.precision,
        "options": dict(chosen.options),
        "images": one.iterations * chosen.batch if one.iterations else None,
        "flags": list(flags(one)),
        "marks": [mark.value for mark in marks(one)],
    }


def _gain(gain: Gain | None) -> dict[str, Any] | None:
    if gain is None:
        return None
    return {"over": gain.over, "share": gain.share, "noise": gain.noise, "within_noise": gain.is_within_noise}


def _interval(interval: Interval | None, factor: float) -> list[float] | None:
    return None if interval is None else [interval.low * factor, interval.high * factor]
