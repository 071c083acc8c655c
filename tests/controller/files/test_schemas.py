"""Every document has a schema, docs/reference/schemas/ has it, and what the commands print keeps to it."""

import copy
import json

import pytest
import typer
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from enginebench_controller.cli import make_app
from enginebench_controller.cli.commands import jobs
from enginebench_controller.files.documents import DOCUMENTS
from enginebench_controller.files.schemas import pages
from every_document import all_documents
from printed import SCHEMAS, check_command, check_document

pytestmark = pytest.mark.xdist_group("documents")  # printing all of them takes a while: once


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """By name, all that is printed of each document."""
    found = all_documents(tmp_path_factory.mktemp("every-document"))
    return {name: [json.loads(text) for text in texts] for name, texts in found.items()}


def test_the_files_are_up_to_date():
    written = {path.name: path.read_text(encoding="utf-8") for path in SCHEMAS.iterdir()}
    assert written == pages(), "run: python -m enginebench_controller.files.schemas docs/reference/schemas"


def test_they_are_schemas():
    for text in pages().values():
        Draft202012Validator.check_schema(json.loads(text))


@pytest.mark.slow
def test_every_document_is_printed_here_and_keeps_to_its_schema(documents):
    assert set(documents) == set(DOCUMENTS)


@pytest.mark.slow
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_begins_with_the_version_of_the_table(documents, name):
    for one in documents[name]:
        told = one.get("schema_version") if isinstance(one, dict) else None
        assert told == DOCUMENTS[name].version


@pytest.mark.slow
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_that_lacks_a_key_or_has_one_more_is_refused(documents, name):
    optional = {"profiles": {"outcome"}}.get(name, set())
    for one in documents[name]:
        whole = one[0] if isinstance(one, list) else one
        for key in whole.keys() - optional:
            refuse(name, one, lambda part, key=key: part.pop(key))
        refuse(name, one, lambda part: part.update(surprise=1))


PLACES = (
    ("benchmark", ("measurements", 0, "latency")),
    ("benchmark", ("measurements", 0, "processes", 0, "warm_up")),
    ("benchmark", ("measurements", 0, "blocks", 0, "evidence")),
    ("benchmark", ("answers", 0, "places", 0)),
    ("export", ("benchmarks", 0, "measurements", 0, "configuration", "stop")),
    ("profiles", ("profiles", 0, "layers", 0, "roofline")),
    ("profile_comparison", ("comparisons", 0, "layers", 0, "first")),
    ("gated_benchmark", ("gate", "metrics", 0)),
    ("trend", ("histories", 0, "alerts", 0, "before")),
    ("jobs", ("jobs", 0, "progress", "cells", 0)),
)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "place"), PLACES, ids=lambda one: one if isinstance(one, str) else one[-1])
def test_so_is_one_that_does_deep_within(documents, name, place):
    one = documents[name][0]
    for key in at(one, place):
        refuse(name, one, lambda part, key=key: part.pop(key), place)
    refuse(name, one, lambda part: part.update(surprise=1), place)


def refuse(name, document, spoil, place=()):
    spoiled = copy.deepcopy(document)
    spoil(at([spoiled] if isinstance(spoiled, dict) else spoiled, (0, *place)))
    with pytest.raises(AssertionError, match=f"no {name}: "):
        check_document(name, spoiled)


def at(document, place):
    for key in place:
        document = document[key]
    return document


@pytest.mark.slow
def test_what_a_test_prints_is_checked(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    assert CliRunner().invoke(make_app(), ["jobs", "list", "--json"]).exit_code == 0
    monkeypatch.setattr(jobs, "head", lambda name: {"schema_version": DOCUMENTS[name].version, "surprise": 1})
    with pytest.raises(AssertionError, match="'surprise' was unexpected"):
        CliRunner().invoke(make_app(), ["jobs", "list", "--json"])


@pytest.mark.slow
def test_what_no_document_of_the_table_is_for_is_refused():
    with pytest.raises(AssertionError, match="knows none"):
        check_command(["models", "remove", "m", "--json"], "{}")


@pytest.mark.slow
def test_the_table_has_every_command_that_prints_json_and_no_other():
    printing = set(_printing(typer.main.get_command(make_app())))
    told = {one.partition(" --")[0] for kind in DOCUMENTS.values() for one in kind.commands}
    assert told == printing


def _printing(group, before=""):
    for name, command in group.commands.items():
        words = f"{before} {name}".strip()
        if hasattr(command, "commands"):
            yield from _printing(command, words)
        elif any("--json" in parameter.opts for parameter in command.params):
            yield words


@pytest.mark.slow
def test_a_form_knows_the_document_that_it_is_of():
    for kind in DOCUMENTS.values():
        form = kind.load()
        for one in getattr(form, "__args__", (form,)):
            assert getattr(one, "document", kind.name) == kind.name
