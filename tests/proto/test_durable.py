"""What is said to be on the disk is there."""

import os
from pathlib import Path

import pytest

from enginebench_proto.agreed.durable import write_whole


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is synchronized and renamed, in order."""
    order: list[str] = []
    sync, replace = os.fsync, Path.replace

    def noted_sync(handle: int) -> None:
        order.append(Path(f"/proc/self/fd/{handle}").readlink().name.removeprefix("."))
        sync(handle)

    def noted_replace(self: Path, target: Path) -> Path:
        order.append(f"named {target.name}")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    return order


def test_content_is_on_the_disk_before_the_file_has_its_name_and_then_the_name_is(
    tmp_path: Path, done: list[str]
) -> None:
    write_whole(tmp_path / "result", b"measured")
    first, named, last = done
    assert first.startswith("result.")
    assert (named, last) == ("named result", tmp_path.name)


def test_what_need_not_last_costs_no_waiting_for_the_disk(tmp_path: Path, done: list[str]) -> None:
    write_whole(tmp_path / "result", b"measured", durable=False)
    assert done == ["named result"]
