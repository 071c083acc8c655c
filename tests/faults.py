"""`python tests/faults.py`: writes into docs/evidence/faults.md which tests show what is promised for each fault.

A test says so itself, with `@pytest.mark.fault(NUMBER)`; the mark may also stand at its class, or, as `pytestmark`, at
its module. The promises are the page's own.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "evidence" / "faults.md"

_HEADING = re.compile(r"^## (\d+)\. ", re.MULTILINE)
_SHOWN = re.compile(r"\n<!-- shown by -->\n.*?<!-- /shown by -->\n", re.DOTALL)


def marked_tests(tests: Path = TESTS) -> dict[int, list[str]]:
    """The tests of each fault, by its number, as pytest names them from the root of the project."""
    found: defaultdict[int, list[str]] = defaultdict(list)
    for path in sorted(tests.rglob("test_*.py")):
        name = f"tests/{path.relative_to(tests)}"
        for number, test in _marks(ast.parse(path.read_text(encoding="utf-8")).body, name, ()):
            found[number].append(test)
    return dict(found)


def _marks(body: Sequence[ast.stmt], name: str, above: Sequence[int]) -> Iterator[tuple[int, str]]:
    around = [*above, *_numbers(each.value for each in body if _is_pytestmark(each))]  # type: ignore[attr-defined]
    for each in body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name.startswith("test_"):
            yield from ((number, f"{name}::{each.name}") for number in [*around, *_numbers(each.decorator_list)])
        elif isinstance(each, ast.ClassDef):
            yield from _marks(each.body, f"{name}::{each.name}", [*around, *_numbers(each.decorator_list)])


def _is_pytestmark(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "pytestmark" for target in statement.targets
    )


def _numbers(expressions: Iterator[ast.expr] | Sequence[ast.expr]) -> Iterator[int]:
    """The numbers within every `mark.fault(…)` of these expressions."""
    for expression in expressions:
        for node in ast.walk(expression):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fault":
                yield from (argument.value for argument in node.args if isinstance(argument, ast.Constant))


def filled(page: str, tests: Mapping[int, Sequence[str]]) -> str:
    """The page with the tests of each fault at the end of its section."""
    opening, *sections = re.split(r"(?m)^(?=## \d+\. )", page)
    return opening + "".join(_with_tests(section, tests) for section in sections)


def _with_tests(section: str, tests: Mapping[int, Sequence[str]]) -> str:
    number = int(_HEADING.match(section)[1])  # type: ignore[index]  # split at headings
    lines = "".join(f"- `{test}`\n" for test in tests.get(number, ()))
    return f"{_SHOWN.sub('', section).rstrip()}\n\n<!-- shown by -->\n{lines}<!-- /shown by -->\n\n"


def promised(page: str) -> list[int]:
    """The numbers of the faults on the page."""
    return [int(number) for number in _HEADING.findall(page)]


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), marked_tests()).rstrip() + "\n", encoding="utf-8")
