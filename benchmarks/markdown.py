"""Tables in Markdown, and the page they are written to."""

from collections.abc import Iterable, Sequence
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "benchmarks.md"


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column is text and aligned left."""
    rule = ["---", *["---:"] * (len(columns) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, rule, *rows))


def fill(page: Path, part: str, text: str) -> None:
    """Put text between the page's marks of a part; what people wrote around them stays.

    Raises `ValueError` for a page without these marks.
    """
    begin, end = f"<!-- {part} -->", f"<!-- /{part} -->"
    content = page.read_text(encoding="utf-8")
    head, found, rest = content.partition(begin)
    _, closed, tail = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"{page} has no place for {part}: put {begin} and {end} there")
    page.write_text(f"{head}{begin}\n{text}\n{end}{tail}", encoding="utf-8")
