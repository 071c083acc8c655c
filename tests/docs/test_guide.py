"""Each page of the guide is followed, command by command, in a home of its own; what it shows is what is printed.

    PYTHONPATH=tests python tests/docs/test_guide.py docs/guide/PAGE.md    write what is printed now into the page

A page's blocks of `console` are one shell. Numbers and ids may differ, `…` stands for whatever there is: within a line
for a part of it, on a line of its own for any lines.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_server import only

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
FENCE, END, PROMPT, ANYTHING = "```console", "```", "$ ", "…"
PATIENCE_S = 600
ENGINES = ("onnxruntime", "openvino")
"""What the pages measure on. Another engine that is installed would be asked by each command, which takes seconds."""
SENTINEL = "--- the next command ---"
UNHURRIED = "first-benchmark"
"""The page whose runs take as long as whoever follows it sees; those of the others are about something else."""
_HURRIED = """
import sys
from enginebench_controller.__main__ import main

if sys.argv[1] in ("run", "profile"):
    from enginebench_controller.plan.plan import Plan

    defaults = {"wait_quiet": "0s", "warmup": "50ms", "interval": "0%", "retry_noisy": False}
    for name, default in defaults.items():
        Plan.model_fields[name].default = default
    Plan.model_rebuild(force=True)
main()
"""


@dataclass(frozen=True)
class Step:
    """A command of a page, and the lines that the page shows beneath it."""

    command: str
    shown: tuple[str, ...]


def steps(text: str) -> tuple[Step, ...]:
    """Return the commands of a page, in its order."""
    found: list[tuple[str, list[str]]] = []
    inside = False
    for line in text.splitlines():
        if line in (FENCE, END):
            inside = line == FENCE
        elif inside and line.startswith(PROMPT):
            found.append((line.removeprefix(PROMPT), []))
        elif inside:
            found[-1][1].append(line)
    return tuple(Step(command, tuple(shown)) for command, shown in found)


def followed(commands: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Return what each command prints, all typed into one shell whose folder and home are this one.

    Its programs are those of the folder's bin, if there are any, before those beside this Python.
    """
    environment = os.environ | {
        "ENGINEBENCH_HOME": str(folder / "home"),
        "PATH": os.pathsep.join([str(folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "COLUMNS": "100",
        "TZ": "UTC",
        "NO_COLOR": "1",
    }
    script = "".join(f"{command}\necho; echo '{SENTINEL}'\n" for command in ["set -m", *commands])
    done = subprocess.run(
        ["bash"],
        input=script,
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=PATIENCE_S,
        check=False,
    )
    return tuple(part.strip("\n") for part in done.stdout.split(SENTINEL)[1 : len(commands) + 1])


def is_as_shown(shown: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether lines are those that are shown, but for numbers, ids, rules, and what `…` stands for."""
    if not shown:
        return not printed
    if shown[0].strip() == ANYTHING:
        return any(is_as_shown(shown[1:], printed[place:]) for place in range(len(printed) + 1))
    return bool(printed) and is_like(shown[0], printed[0]) and is_as_shown(shown[1:], printed[1:])


def is_like(shown: str, printed: str) -> bool:
    """Whether one line is the other, but for the same."""
    parts = (re.escape(plain(part)) for part in shown.split(ANYTHING))
    return re.fullmatch(".*".join(parts), plain(printed)) is not None


def plain(line: str) -> str:
    """A line without what differs from run to run."""
    line = re.sub(r"\b[0-9a-f]{8,64}\b", "ID", line)
    line = re.sub(r"\d[\d.,:]*(?<![.,:])", "N", line)
    return " ".join(re.sub(r"[─━-]{2,}", "--", line).split())


def pages() -> Iterator[Path]:
    """The pages that have commands."""
    return (page for page in sorted(GUIDE.glob("*.md")) if FENCE in page.read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.timeout(PATIENCE_S)
@pytest.mark.parametrize("page", list(pages()), ids=lambda page: page.stem)
def test_a_page_can_be_followed_and_shows_what_is_printed(page, tmp_path):
    asked = steps(page.read_text(encoding="utf-8"))
    for agent in (tmp_path / "home" / "agent", tmp_path / "board"):
        agent.mkdir(mode=0o700, parents=True)
        (agent / "agent.toml").write_text(only(*ENGINES))
    if page.stem != UNHURRIED:
        program = tmp_path / "bin" / "enginebench"
        program.parent.mkdir()
        program.write_text(f"#!{sys.executable}\n{_HURRIED}")
        program.chmod(0o755)
    printed = followed([step.command for step in asked], tmp_path)
    for step, got in zip(asked, printed, strict=True):
        assert is_as_shown(step.shown, got.splitlines()), f"$ {step.command}\n{got}\n\nshown:\n" + "\n".join(step.shown)


def test_the_site_has_every_page_of_the_guide():
    listed = (GUIDE.parent / "index.md").read_text(encoding="utf-8").splitlines()
    assert {f"guide/{page.stem}" for page in GUIDE.glob("*.md")} == {one for one in listed if one.startswith("guide/")}


def test_what_differs_from_run_to_run_may_differ_and_nothing_else():
    shown = ["openvino  3.62 ms ± 1 %  0123456789ab", "…", "done …"]
    assert is_as_shown(shown, ["openvino 12.1 ms ± 10 %   ba9876543210", "one", "two", "done in 3 s"])
    assert is_as_shown(shown, ["openvino 12.1 ms ± 10 %   ba9876543210", "done "])
    assert not is_as_shown(shown, ["torch 12.1 ms ± 10 %   ba9876543210", "done"])
    assert not is_as_shown(shown, ["openvino 12.1 ms ± 10 %   ba9876543210", "one"])
    assert not is_as_shown([], ["more"])


def written(text: str, printed: Sequence[str]) -> str:
    """Return a page with what its commands print."""
    left, lines, inside = list(printed), [], False
    for line in text.splitlines():
        if line in (FENCE, END):
            inside = line == FENCE
        elif inside and not line.startswith(PROMPT):
            continue
        lines.append(line)
        if inside and line.startswith(PROMPT):
            lines += left.pop(0).splitlines()
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        before = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            path.write_text(
                written(before, followed([one.command for one in steps(before)], Path(folder))), encoding="utf-8"
            )
