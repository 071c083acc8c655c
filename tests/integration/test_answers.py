"""One real run on two engines: they take turns by themselves, and the same sentence stands first wherever one looks."""

from pathlib import Path

import pytest

from integration.bench import UNHURRIED, Bench

pytestmark = pytest.mark.engines("onnxruntime", "openvino")

SHORT = ("--processes", "3", "--duration", "300ms", "--warmup", "50ms", "--block", "20ms", *UNHURRIED)


def test_two_engines_take_turns_and_the_answer_is_the_same_everywhere(
    bench: Bench, model: Path, tmp_path: Path
) -> None:
    arguments = ("--engine", "onnxruntime,openvino", "--batch", "1,2", "--cores", "1", *SHORT, "--name", "duel")
    document = bench.json("run", model, *arguments)
    measurements = bench.measurements(document)
    groups: dict[int, set[str | None]] = {1: set(), 2: set()}
    for one in measurements:
        groups[one.configuration.batch].add(one.interleaving_group)
    assert all(len(group) == 1 and None not in group for group in groups.values()), "those of a batch are a group"
    assert groups[1] != groups[2]
    sentences = [one["sentence"] for one in document["answers"]]
    assert [one["work"] for one in document["answers"]] == [f"tiny, batch {batch}, 1 core" for batch in (1, 2)]
    assert all("onnxruntime" in one and "openvino" in one for one in sentences)
    assert list(document)[:2] == ["schema_version", "answers"]

    assert bench.json("show", "duel")["answers"] == bench.json("compare", "duel")["answers"] == document["answers"]
    reports = ("--html", tmp_path / "duel.html", "--markdown", tmp_path / "duel.md")
    shown, compared = bench.cli("show", "duel"), bench.cli("compare", "duel", *reports)
    assert shown.stdout.startswith(sentences[0]) and compared.stdout.startswith(sentences[0])
    for sentence in sentences:
        assert sentence in shown.stdout and sentence in compared.stdout
        assert sentence in (tmp_path / "duel.html").read_text(encoding="utf-8")
        assert sentence in (tmp_path / "duel.md").read_text(encoding="utf-8").replace("&#64;", "@")
    if command := document["answers"][0]["command"]:
        assert command.startswith("enginebench run") and "--batch 2" not in command


def test_nothing_takes_turns_where_that_is_not_wanted(bench: Bench, model: Path) -> None:
    arguments = ("--engine", "onnxruntime,openvino", "--cores", "1", *SHORT, "--processes", "1", "--no-interleave")
    document = bench.json("run", model, *arguments)
    assert {m.interleaving_group for m in bench.measurements(document)} == {None}
    (answer,) = document["answers"]
    assert answer["outcome"] == "cannot_tell" and "one process each" in answer["sentence"]
    assert answer["command"].startswith("enginebench run") and "interleave" not in answer["command"]
    assert any("not in turns" in remark for remark in answer["remarks"])
