"""A figure is declared once, and every form of a record has it."""

import csv
import io
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import pytest

import invented
from enginebench_controller.files.benchmarks import measurement_document
from enginebench_controller.files.csv_tables import measurements_csv
from enginebench_controller.records import Block, Evidence, LatencySummary, Measurement, Process
from enginebench_controller.records.figures import Figure, derived_figures, derived_values, figures, from_values, values
from enginebench_controller.store.tables import WORDS
from enginebench_proto.v1 import measurement_pb2, run_pb2


class Word(StrEnum):
    GOOD = "good"


@dataclass(frozen=True)
class Record:
    name: str
    seconds: Annotated[float | None, Figure("how long, in s")] = None
    word: Annotated[Word | None, Figure("how it was")] = None

    @property
    def minutes(self) -> Annotated[float | None, Figure("how long, in minutes")]:
        return None if self.seconds is None else self.seconds / 60


def test_what_says_what_it_means_is_a_figure_and_what_does_not_is_none():
    assert figures(Record) == {"seconds": "how long, in s", "word": "how it was"}
    assert derived_figures(Record) == {"minutes": "how long, in minutes"}


@pytest.mark.parametrize("record", [Record("a", 60.0, Word.GOOD), Record("a")])
def test_values_are_plain_and_make_the_record_again(record):
    assert type(values(record)["word"]) in (str, type(None))
    assert Record("a", **from_values(Record, values(record))) == record


def test_what_follows_is_worked_out():
    assert derived_values(Record("a", 60.0)) == {"minutes": 1.0}


@pytest.mark.parametrize(
    ("table", "record"),
    [
        ("measurements", Measurement),
        ("measurements", LatencySummary),
        ("processes", Process),
        ("blocks", Block),
        ("blocks", Evidence),
    ],
)
def test_every_figure_is_a_column_that_says_the_same(table, record):
    assert figures(record).items() <= WORDS[table].columns.items()


@pytest.mark.parametrize(("record", "message"), [(Block, "Block"), (Evidence, "Evidence")])
def test_every_figure_of_a_block_is_on_the_wire(record, message):
    assert set(figures(record)) <= set(getattr(measurement_pb2, message).DESCRIPTOR.fields_by_name)


def test_every_figure_of_a_process_is_on_the_wire_or_follows_from_its_samples():
    follow = {"median_ns", "throughput_items_per_s", "drift"}
    of_run = {"started_at_unix_ns"}
    told = set(measurement_pb2.Measurement.DESCRIPTOR.fields_by_name)
    assert set(figures(Process)) - follow - of_run <= told
    assert of_run <= set(run_pb2.RunResult.DESCRIPTOR.fields_by_name)


def test_every_figure_of_a_measurement_is_in_its_documents_and_in_csv():
    measured = invented.measured("m1")
    (row,) = csv.DictReader(io.StringIO(measurements_csv([measured])))
    wanted = [*figures(Measurement), *derived_figures(Measurement)]
    assert set(wanted) <= set(measurement_document(measured))
    assert {*wanted, *figures(LatencySummary)} <= set(row)
    assert float(row["median_ns"]) == measured.latency.median_ns
