"""(g) What profiles, flops and comparisons reach, for each model on each engine.

Everything goes through the command line, as a user would. A run that was cut short is continued by the next one; one
that came to its end begins anew.
"""

import asyncio
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from benchmarks.command_line import CommandLine, agent_apart
from benchmarks.coverage_models import Model, models
from benchmarks.coverage_tables import tables
from benchmarks.setting import RESULTS, Setting

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "coverage.md"
FOLDER = RESULTS / "coverage"
ENGINES = ("onnxruntime", "openvino", "torch", "deepsparse")
ITERATIONS = 5
"""DeepSparse compiles the model anew for each of them."""

Row = dict[str, Any]


def measure(setting: Setting) -> list[Row]:
    """A row for each model × engine, and one for each pair of profiles."""
    home = FOLDER / "home"
    if not (FOLDER / "parts").exists():
        shutil.rmtree(home, ignore_errors=True)
    environments = setting.home.agent_data / "environments"
    rows = asyncio.run(agent_apart(home, environments, lambda cli: list(_rows(setting, cli))))
    shutil.rmtree(FOLDER / "parts")
    return rows


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """What each engine made of each model, and how its profiles join with others."""
    return tables(rows)


def _rows(setting: Setting, cli: CommandLine) -> Iterator[Row]:
    chosen = list(models(cli, FOLDER / "models", quick=setting.quick))
    ids: dict[tuple[str, str], str] = {}
    for model in chosen:
        for row in _of_model(cli, model, 2 if setting.quick else ITERATIONS):
            ids |= {(model.name, row["engine"]): row["id"]} if row["status"] == "ok" else {}
            yield row
        on = [engine for engine in ENGINES if (model.name, engine) in ids]
        yield from _compared(cli, [_Side(model.name, engine, ids[model.name, engine]) for engine in on])
    for model in chosen:
        on = [engine for engine in ENGINES if {(model.name, engine), (model.base, engine)} <= ids.keys()]
        for engine in on:
            yield from _compared(cli, [_Side(name, engine, ids[name, engine]) for name in (model.base, model.name)])


def _of_model(cli: CommandLine, model: Model, iterations: int) -> Iterator[Row]:
    counted = _kept(f"{model.name}.flops", lambda: _flops(cli, model))
    for engine in ENGINES:
        yield counted | _kept(f"{model.name}.{engine}", lambda: _profile(cli, model, engine, iterations))  # noqa: B023
        # it is called before the loop goes on


def _kept(name: str, work: Callable[[], Row]) -> Row:
    """What an earlier run that was cut short found, or else what `work` finds now."""
    path = FOLDER / "parts" / f"{name}.json"
    if path.exists():
        return dict(json.loads(path.read_text(encoding="utf-8")))
    begin = time.perf_counter()
    row = work() | {"wall_s": time.perf_counter() - begin}
    print(f"  {name}: {row.get('status', 'ok')}, {row['wall_s']:.0f} s", flush=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(row), encoding="utf-8")
    return row


def _flops(cli: CommandLine, model: Model) -> Row:
    total = cli.json("flops", model.path)["total"]
    return {"macs": total["macs"], "flops": total["flops"], "flops_coverage": total["coverage_percent"] / 100}


def _profile(cli: CommandLine, model: Model, engine: str, iterations: int) -> Row:
    row = {"kind": "profile", "model": model.name, "engine": engine}
    asked = ("profile", model.path, "--engine", engine, "--target", cli.target, "--iterations", iterations)
    found = cli.try_json(*asked, "--name", model.name)
    if isinstance(found, str):
        return row | {"status": "refused", "reason": found}
    (profile,) = found["profiles"]
    return row | (_failed(profile["failure"]) if profile["failure"] else _figures(profile)) | {"id": profile["id"]}


def _failed(failure: Mapping[str, Any]) -> Row:
    words = (failure["detail"] or failure["message"]).strip().splitlines()[0]
    return {"status": failure["kind"], "reason": words}


def _figures(profile: Mapping[str, Any]) -> Row:
    coverage, figures = profile["coverage"], profile["figures"]
    groups = {layer["group"] for layer in profile["layers"]} - {None}
    return {
        "status": profile["status"],
        "latency_ns": profile["unprofiled_latency_ns"],
        "layers": sum(layer["state"] == "executed" for layer in profile["layers"]),
        "matched": coverage["matched_share"],
        "conserved": coverage["matched_ns"] + coverage["unmatched_ns"] == coverage["total_ns"],
        "groups": len(groups),
        "largest_group": coverage["largest_group_share"],
        "layers_to_latency": figures["layers_to_latency"],
    }


@dataclass(frozen=True)
class _Side:
    model: str
    engine: str
    id: str

    @property
    def name(self) -> str:
        return f"{self.model}.{self.engine}"


def _compared(cli: CommandLine, sides: Sequence[_Side]) -> Iterator[Row]:
    for first, second in combinations(sides, 2):
        yield _kept(f"{first.name}-{second.name}", lambda: _pair(cli, first, second))  # noqa: B023  # called at once


def _pair(cli: CommandLine, first: _Side, second: _Side) -> Row:
    (pair,) = cli.json("compare", first.id, second.id)["comparisons"]
    coverage = pair["coverage"]
    convolutions = next((one for one in coverage["operators"] if one["operator"] == "Conv"), {})
    return {
        "kind": "pair",
        "models": [first.model, second.model],
        "engines": [first.engine, second.engine],
        "rows": coverage["rows"],
        "joined_rows": coverage["joined_rows"],
        "joined": coverage["joined_share"],
        "largest": coverage["largest_share"],
        "convolutions": [convolutions.get(side) for side in ("first", "second", "matched")],
    }
