"""Whole numbers and files as people write them, read alike at both ends."""

from pathlib import Path

import pytest

from enginebench_proto.agreed.typed import typed_text, whole_number


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("7", 7), ("1000", 1000)])
def test_plain_digits_are_a_number(text: str, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize(
    "text", ["", "007", "1.000", "1_000", "1,000", "+1", "-1", " 1", "1\n", "٤", "４", "²", "x" * 99]
)
def test_nothing_else_is(text: str) -> None:
    with pytest.raises(ValueError, match="is not a whole number") as caught:
        whole_number(text)
    assert len(str(caught.value)) < 80


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_mark_in_front_is_no_part_of_the_text(tmp_path: Path, encoding: str) -> None:
    (file := tmp_path / "a.toml").write_text("ä = 1", encoding=encoding)
    assert typed_text(file) == "ä = 1"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"])
def test_another_encoding_is_told(tmp_path: Path, encoding: str) -> None:
    (file := tmp_path / "a.toml").write_text("ä = 1", encoding=encoding)
    with pytest.raises(ValueError, match=r"^it is not UTF-8: save it as UTF-8$"):
        typed_text(file)
