"""`python -m benchmarks.real_models`: files that others made, on every engine, through the product as people use it.

For each model × engine: did it run, do its outputs agree, what share of its time is led back to nodes of the model, and
where it does not run, in whose words. What was found is kept as it is found, so that a trial that was cut short goes
on; `--again` forgets the cells that it names.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.command_line import CommandLine, agent_apart
from benchmarks.markdown import fill, markdown_table
from benchmarks.own_words import own_words
from benchmarks.real_files import SAMPLES, RealModel, found, listed, write_samples
from benchmarks.setting import DEEPSPARSE, RESULTS
from enginebench_controller.home import default_home
from enginebench_plugins.toolkit.engine import processor_name

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "evidence" / "real-models.md"
FOLDER = RESULTS / "real_models"
PEER = "onnxruntime"
ENGINES = (PEER, "openvino", "torch", DEEPSPARSE)
SHORT_RUN = (
    *("--processes", 1, "--duration", "300ms", "--max-duration", "3s", "--warmup", "100ms"),
    *("--iterations", 5, "--interval", "0%"),
)
PROFILE_ITERATIONS = 3
TIMEOUT = "240s"
WANTED_RUN = {"openvino": 0.95, "torch": 0.90, DEEPSPARSE: 0.75}
"""Of the models that ONNX Runtime runs."""

WANTED_MATCHED = 0.95
MATCHED_OF = (PEER, "openvino", "torch")
UNKNOWN = "–"
LONGEST_REASON = 700

Row = dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """Where the product is asked, and where answers are kept."""

    cli: CommandLine
    folder: Path
    deepsparse_python: Path | None

    def kept(self, model: RealModel, what: str) -> Row | None:
        """What an earlier trial found for this very file, or None."""
        path = self._path(model, what)
        return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None

    def keep(self, model: RealModel, what: str, row: Row) -> Row:
        """Remember an answer as soon as it is there."""
        path = self._path(model, what)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(row), encoding="utf-8")
        return row

    def forget(self, model: RealModel, what: str) -> None:
        """Ask again."""
        self._path(model, what).unlink(missing_ok=True)

    def _path(self, model: RealModel, what: str) -> Path:
        return self.folder / "cells" / f"{model.name}.{model.sha256[:12]}.{what}.json"


def main() -> None:
    """Try what has no answer yet, and write the page where the whole list was asked for."""
    arguments = _arguments()
    folder = FOLDER / "files" if arguments.files else FOLDER
    models = list(
        found(Path(arguments.files), arguments.only) if arguments.files else listed(FOLDER / "models", arguments.only)
    )
    if not models:
        raise SystemExit("no such model: --only takes names of benchmarks/real_models.toml, or of files in --files")
    environments = default_home().agent_data / "environments"
    python = environments / DEEPSPARSE / "venv" / "bin" / "python"

    def work(cli: CommandLine) -> list[Row]:
        trial = Trial(cli, folder, python if python.exists() else None)
        engines = _engines(trial, arguments.engine)
        for model in models if arguments.again else ():
            for what in (*engines, "flops"):
                trial.forget(model, what)
        waiting = [model for model in models if not _is_answered(trial, model, engines)]
        begin = time.perf_counter()
        for count, model in enumerate(waiting, start=1):
            _answer(trial, model, engines)
            left_min = (time.perf_counter() - begin) / count * (len(waiting) - count) / 60
            print(f"  {count} of {len(waiting)}, about {left_min:.0f} min left", flush=True)
        return [row for model in models for row in _rows(trial, model, engines)]

    rows = asyncio.run(agent_apart(folder / "home", environments, work))
    text = page(models, rows)
    print(text)
    if not (arguments.files or arguments.only or arguments.engine):
        fill(PAGE, "trial", text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.real_models", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--only", action="append", default=[], metavar="MODEL", help="this model; may be repeated")
    parser.add_argument("--engine", action="append", default=[], choices=ENGINES, help="this engine; may be repeated")
    parser.add_argument("--files", metavar="FOLDER", help="the .onnx files below a folder instead of the list")
    parser.add_argument("--again", action="store_true", help="ask anew what was answered before")
    return parser.parse_args()


def _engines(trial: Trial, asked: Sequence[str]) -> list[str]:
    there = (engine for engine in ENGINES if engine != DEEPSPARSE or trial.deepsparse_python is not None)
    return [engine for engine in there if not asked or engine in asked]


def _is_answered(trial: Trial, model: RealModel, engines: Sequence[str]) -> bool:
    return all(trial.kept(model, what) is not None for what in (*engines, "flops"))


def _answer(trial: Trial, model: RealModel, engines: Sequence[str]) -> None:
    """Find what is not known of a model yet."""
    if trial.kept(model, "flops") is None:
        trial.keep(model, "flops", _flops(trial, model))
    if missing := [engine for engine in engines if trial.kept(model, engine) is None]:
        _try(trial, model, missing)


def _rows(trial: Trial, model: RealModel, engines: Sequence[str]) -> Iterator[Row]:
    counted = trial.kept(model, "flops") or {}
    for engine in engines:
        yield {**counted, **(trial.kept(model, engine) or {}), "model": model.name, "engine": engine}


def _flops(trial: Trial, model: RealModel) -> Row:
    said = trial.cli.try_json("flops", model.path, *model.shape_options)
    if isinstance(said, str):
        return {"flops_coverage": None, "flops_reason": said}
    return {"flops_coverage": said["total"]["coverage_percent"] / 100, "flops": said["total"]["flops"]}


def _try(trial: Trial, model: RealModel, engines: Sequence[str]) -> None:
    """One run of the engines, with ONNX Runtime beside them to compare outputs with, and a profile of each."""
    begin = time.perf_counter()
    inputs = ("--inputs", write_samples(model, trial.folder / "inputs") if model.values else SAMPLES)
    which = ",".join(dict.fromkeys((PEER, *engines)))
    asked = ("run", model.path, "--engine", which, *SHORT_RUN, *_common(trial, model), *inputs)
    said = trial.cli.try_json(*asked, "--name", model.name)
    rows = {engine: _outcome(said, engine) for engine in engines}
    profiled = _profiles(trial, model, [engine for engine in engines if rows[engine]["status"] == "ran"], inputs)
    for engine, row in rows.items():
        if row["status"] != "ran":
            row["own"] = own_words(engine, model, trial.deepsparse_python)
        trial.keep(model, engine, row | profiled.get(engine, {}))
        print(f"  {model.name} {engine}: {row['status']} {row.get('problem') or row.get('reason', '')}", flush=True)
    print(f"  {model.name}: {time.perf_counter() - begin:.0f} s", flush=True)


def _common(trial: Trial, model: RealModel) -> tuple[object, ...]:
    return ("--target", trial.cli.target, "--timeout", TIMEOUT, *model.shape_options)


def _outcome(said: Any, engine: str) -> Row:
    """What a run's document, or the sentence in its place, says of an engine."""
    if isinstance(said, str):
        return {"status": "refused", "reason": said}
    measured = next((one for one in said["measurements"] if one["engine"]["name"] == engine), None)
    if measured is None:
        return {"status": "refused", "reason": "the run has no measurement of it"}
    if measured["failure"]:
        return {"status": "failed", "reason": cause(measured["failure"])}
    check = measured["output_check"] or {}
    return {
        "status": "ran",
        "median_ns": measured["latency"]["median_ns"] if measured["latency"] else None,
        "problem": check.get("problem", ""),
        "error": check.get("max_relative_error"),
        "prepared": measured["effective"].get("prepared") or [],
    }


def _profiles(trial: Trial, model: RealModel, engines: Sequence[str], inputs: tuple[object, ...]) -> Mapping[str, Row]:
    """The share of each engine's time that is led back to nodes, or why there is none."""
    if not engines:
        return {}
    few = ("--iterations", PROFILE_ITERATIONS, "--warmup", "100ms")
    asked = ("profile", model.path, "--engine", ",".join(engines), *few, *_common(trial, model), *inputs)
    said = trial.cli.try_json(*asked, "--name", model.name)
    if isinstance(said, str):
        return {engine: {"profile": said} for engine in engines}
    return {profile["engine"]["name"]: _profiled(profile) for profile in said["profiles"]}


def _profiled(profile: Mapping[str, Any]) -> Row:
    if profile["failure"]:
        return {"profile": cause(profile["failure"])}
    unmatched = [layer for layer in profile["layers"] if layer["state"] == "executed" and not layer["source_nodes"]]
    names = sorted({layer["type"] for layer in unmatched})
    return {"matched": profile["coverage"]["matched_share"], "unmatched": names}


def cause(failure: Mapping[str, Any]) -> str:
    """The line of the engine's words that says why; where it had none, the whole sentence."""
    return str((failure["detail"] and failure["cause"]) or failure["message"])


def page(models: Sequence[RealModel], rows: Sequence[Row]) -> str:
    """The whole text: how it was done, the totals, model × engine, the words of those that refuse, and the list."""
    engines = [engine for engine in ENGINES if any(row["engine"] == engine for row in rows)]
    parts = [_conditions(), totals(rows, engines), cells(models, rows, engines), *_sentences(rows), _list(models)]
    return "\n\n".join(parts)


def _conditions() -> str:
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    return f"{when}, {processor_name()}; each cell one process, {PROFILE_ITERATIONS} profiled inferences."


def totals(rows: Sequence[Row], engines: Sequence[str]) -> str:
    """Each engine against what is wanted of it, over the models that ONNX Runtime runs; all where it was not asked."""
    left_out = {row["model"] for row in rows if row["engine"] == PEER and row["status"] != "ran"}
    runnable = {row["model"] for row in rows} - left_out
    columns = ("engine", "ran", "wanted", "outputs differ", "matched, median", "wanted", "refusals not its own")
    return markdown_table(columns, (_total(engine, rows, runnable) for engine in engines))


def _total(engine: str, rows: Sequence[Row], runnable: set[str]) -> Sequence[str]:
    of = [row for row in rows if row["engine"] == engine and row["model"] in runnable]
    ran = [row for row in of if row["status"] == "ran"]
    matched = [row["matched"] for row in ran if row.get("matched") is not None]
    wanted = WANTED_RUN.get(engine)
    return (
        engine,
        f"{len(ran)} of {len(of)}, {_percent(len(ran) / len(of) if of else None)}",
        UNKNOWN if wanted is None else f"≥ {wanted:.0%}",
        str(sum(bool(row["problem"]) for row in ran)),
        _percent(statistics.median(matched) if matched else None),
        f"≥ {WANTED_MATCHED:.0%}" if engine in MATCHED_OF else UNKNOWN,
        str(sum(not row.get("own") for row in of if row["status"] != "ran")),
    )


def cells(models: Sequence[RealModel], rows: Sequence[Row], engines: Sequence[str]) -> str:
    """A row a model, a column an engine: = or ≠, and the share of the time that is matched."""
    by_cell = {(row["model"], row["engine"]): row for row in rows}
    lines = []
    for model in models:
        of = [by_cell[model.name, engine] for engine in engines]
        lines.append([model.name, *map(_cell, of), _percent(of[0].get("flops_coverage"))])
    return markdown_table(("model", *engines, "FLOPs known"), lines)


def _cell(row: Row) -> str:
    if row["status"] != "ran":
        return "refuses" if row.get("own") else "fails"
    return f"{'≠' if row['problem'] else '='} {_percent(row.get('matched'))}"


def _sentences(rows: Sequence[Row]) -> Iterator[str]:
    left_out = [row for row in rows if row["engine"] == PEER and row["status"] != "ran"]
    counted = [row for row in rows if row["model"] not in {one["model"] for one in left_out}]
    groups = {
        "### Left out, as ONNX Runtime does not run them": left_out,
        "### Refusals of the engines' own": [row for row in counted if row["status"] != "ran" and row.get("own")],
        "### Failures that are not": [row for row in counted if row["status"] != "ran" and not row.get("own")],
        "### Outputs that differ": [row for row in rows if row.get("problem")],
        "### Profiles that failed": [row for row in rows if row.get("profile")],
    }
    for title, those in groups.items():
        if those:
            lines = [f"- **{row['model']}**, {row['engine']}: {_short(_words(row))}" for row in those]
            yield "\n".join([title, "", *lines])


def _words(row: Row) -> str:
    return str(row.get("problem") or row.get("profile") or row.get("reason", ""))


def _short(text: str) -> str:
    plain = " ".join(text.replace(f"{ROOT}/", "").split()).replace("|", "\\|")
    return plain if len(plain) <= LONGEST_REASON else f"{plain[: LONGEST_REASON - 1]}…"


def _list(models: Sequence[RealModel]) -> str:
    if not any(model.package for model in models):
        return ""
    lines = ([one.name, one.about, f"{one.package} {one.version}", one.licence, one.sha256[:12]] for one in models)
    return "### The files\n\n" + markdown_table(("name", "what it is about", "package", "licence", "sha256"), lines)


def _percent(share: float | None) -> str:
    """Rounded down, so that 100 % means all."""
    return UNKNOWN if share is None else f"{int(1000 * share + 1e-9) / 10:g}%"


if __name__ == "__main__":
    main()
