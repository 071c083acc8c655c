"""How an exported PyTorch program (.pt2) is called: whoever runs one has its tensors in a row, by the names given.

A program is the module that PyTorch makes of the file. It takes its arguments in the very form it was exported with: by
keyword, within dicts and tuples, and beside what is no tensor.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class ProgramInputs:
    """The tensors that a program takes. `names` are theirs in its own order, `past_0_key` that of one within others."""

    def __init__(self, program: Any) -> None:
        # PyTorch has no public name for the form of the call.
        self._form = program._in_spec
        taken = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
        self._kept = list(taken.values())
        self.names = [name for name, kept in taken.items() if is_tensor(kept)]

    def in_order(self, given: Mapping[str, T]) -> list[T]:
        """What is given for each, in the program's order: by the names where they are the program's, else as given.

        Raises `ValueError` where there are more or fewer than the program takes.
        """
        if len(given) != len(self.names):
            raise ValueError(
                f"the program takes {len(self.names)} inputs ({', '.join(self.names)}), and {len(given)} are given "
                f"({', '.join(given)})"
            )
        return [given[name] for name in (self.names if set(self.names) == set(given) else given)]

    def arguments(self, tensors: Iterable[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments by place and by keyword: the tensors, and the rest as it was when the program was exported."""
        given = iter(tensors)
        args, kwargs = self._form.unflatten([next(given) if is_tensor(kept) else kept for kept in self._kept])
        return args, kwargs


def is_tensor(value: Any) -> bool:
    """Whether this is one of PyTorch's, or stands in for one while a program is being looked at."""
    return hasattr(value, "detach")
