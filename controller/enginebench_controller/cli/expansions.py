"""What `run --dry-run` says: the configurations that a plan multiplies out to, and how long they would be measured."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from enginebench_controller.cli.console import print_json, print_table, remark
from enginebench_controller.planning.configurations import describe_load
from enginebench_controller.planning.expand import Expansion, Job
from enginebench_controller.records.json_form import CONFIGURATION

SCHEMA_VERSION = 1
_HEADINGS = ("target", "model", "engine", "version", "environment", "device")
_AXES_HEADINGS = ("batch", "cores", "streams", "precision", "load", "hint")


def show_expansion(expansion: Expansion, *, as_json: bool) -> None:
    """Print what would run, for a person or for a program."""
    shortest_s, longest_s = _seconds_of_measuring(expansion)
    if as_json:
        print_json(
            {
                "schema_version": SCHEMA_VERSION,
                "dry_run": True,
                "configurations": [_described(job) for job in expansion.jobs],
                "shortest_measuring_s": shortest_s,
                "longest_measuring_s": longest_s,
                "notes": list(expansion.notes),
            }
        )
        return
    print_table("Would run", [(heading, False) for heading in _HEADINGS + _AXES_HEADINGS], list(_rows(expansion)))
    span = f"{shortest_s:.0f} to {longest_s:.0f} s of measuring"
    remark(f"{len(expansion.jobs)} configurations in random order, {span}")
    for note in expansion.notes:
        remark(f"note: {note}")


def _described(job: Job) -> dict[str, Any]:
    model = {"name": job.model.name, "digest": job.model.digest}
    configuration = CONFIGURATION.to_data(job.configuration)
    return {"target": job.target, "model": model, "engine": asdict(job.engine), "configuration": configuration}


def _rows(expansion: Expansion) -> Iterator[list[object]]:
    for job in expansion.jobs:
        c = job.configuration
        axes = [c.device, c.batch, c.cores, c.streams, c.precision, describe_load(c), c.hint]
        yield [job.target, job.model.name, job.engine.name, job.engine.version, job.engine.environment, *axes]


def _seconds_of_measuring(expansion: Expansion) -> tuple[float, float]:
    """The shortest and the longest that the stop rules allow, warm-up included."""
    rules = [job.configuration.stop for job in expansion.jobs]
    warm_up_ns = sum(rule.processes * rule.warmup_ns for rule in rules)
    shortest_ns, longest_ns = sum(r.min_duration_ns for r in rules), sum(r.max_duration_ns for r in rules)
    return (shortest_ns + warm_up_ns) / 1e9, (longest_ns + warm_up_ns) / 1e9
