"""The page of faults is true: every fault that it names is shown by tests, and it names all of them."""

from pathlib import Path

import pytest

from faults import PAGE, filled, marked_tests, promised


@pytest.mark.slow
def test_the_page_of_faults_names_the_tests_that_show_each() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page, marked_tests()).rstrip() == page.rstrip(), "run `make docs`"


@pytest.mark.slow
def test_every_fault_is_shown_by_a_test() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert promised(page) == list(range(1, 36))
    assert set(marked_tests()) == set(promised(page))


def test_marks_of_functions_classes_and_modules_count(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "pytestmark = [pytest.mark.fault(3), pytest.mark.slow]\n"
        "@pytest.mark.fault(4)\n"
        "async def test_one(): ...\n"
        "@pytest.mark.fault(5)\n"
        "class TestMore:\n"
        "    def test_two(self): ...\n"
        "def helper(): ...\n"
    )
    one, two = "tests/test_some.py::test_one", "tests/test_some.py::TestMore::test_two"
    assert marked_tests(tmp_path) == {3: [one, two], 4: [one], 5: [two]}


def test_what_stood_on_the_page_before_is_replaced() -> None:
    page = "# Faults\n\n## 1. One\n\nPromise.\n\n## 2. Two\n\nOther.\n"
    once = filled(page, {1: ["tests/a.py::b"]})
    assert "Promise.\n\n<!-- shown by -->\n- `tests/a.py::b`\n<!-- /shown by -->\n\n## 2. Two" in once
    assert filled(once, {1: ["tests/a.py::b"]}) == once
