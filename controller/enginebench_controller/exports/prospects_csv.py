"""Pruning prospects as CSV (RFC 4180): a row a part of the model, an empty cell for what is unknown."""

import csv
import io
from collections.abc import Iterator

from enginebench_controller.documents.benchmarks import Document
from enginebench_controller.documents.prospects import part_document
from enginebench_controller.exports.csv_table import cell
from enginebench_controller.prospects import PruningProspects


def prospects_csv(found: PruningProspects) -> str:
    """The text of the table. Times are in nanoseconds; each heading says what is estimated and what measured."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(_headings(found))
    for place in range(len(found.series.parts)):
        writer.writerow(map(cell, _values(part_document(found, place))))
    return text.getvalue()


def _headings(found: PruningProspects) -> list[str]:
    headings = ["nodes", "types", "handed_over", "prunable", "parameters", "flops"]
    headings += [f"imposed_{sparsity:g}_ns" for sparsity in found.series.sparsities]
    for copy in (one for one in found.outcomes if one.is_copy):
        name = copy.profile.model_name
        headings += [f"{name} sparsity", f"{name} estimated_ns", f"{name} measured_ns"]
    return headings


def _values(part: Document) -> Iterator[object]:
    yield from (part[key] for key in ("nodes", "types", "handed_over", "prunable", "parameters", "flops"))
    yield from (step["time_ns"] for step in part["imposed"])
    for copy in part["copies"]:
        yield from (copy["sparsity"], copy["estimated_ns"], copy["measured_ns"])
