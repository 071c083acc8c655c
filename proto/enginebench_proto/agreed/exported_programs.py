"""How an exported PyTorch program (.pt2) is called, and how the outputs of it or of TorchScript are named.

A program is the module that PyTorch makes of the file. It takes its arguments in the very form it was exported with: by
keyword, within dicts and tuples, and beside what is no tensor. So it returns its outputs.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class ProgramInputs:
    """The tensors that a program takes. `names` are theirs in its own order, `past_0_key` that of one within others."""

    def __init__(self, program: Any) -> None:
        # PyTorch has no public name for the form of the call.
        self._form = program._in_spec
        # A node has another name where the argument's is one of Python's own: input_1 for input.
        taken = {str(node.target): node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
        self._kept = list(taken.values())
        self.names = [name for name, kept in taken.items() if is_tensor(kept)]

    def in_order(self, given: Mapping[str, T]) -> list[T]:
        """What is given for each, in the program's order: by the names where they are the program's, else as given.

        Raises `ValueError` where there are more or fewer than the program takes, and where only some names are its own.
        """
        if len(given) != len(self.names):
            raise ValueError(
                f"the program takes {len(self.names)} inputs ({', '.join(self.names)}), and {len(given)} are given "
                f"({', '.join(given)})"
            )
        own = given.keys() & set(self.names)
        if own and len(own) < len(given):
            raise ValueError(
                f"the program takes {', '.join(self.names)}, and of the names given only {', '.join(sorted(own))} "
                f"{'is' if len(own) == 1 else 'are'} among them"
            )
        return [given[name] for name in (self.names if own else given)]

    def arguments(self, tensors: Iterable[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments by place and by keyword: the tensors, and the rest as it was when the program was exported."""
        given = iter(tensors)
        args, kwargs = self._form.unflatten([next(given) if is_tensor(kept) else kept for kept in self._kept])
        return args, kwargs


def returned_by(program: Any) -> Any:
    """What a program returns, with the tensors that stood in for its own when it was exported."""
    returned = program.graph.output_node().args[0]
    return program._out_spec.unflatten([getattr(each, "meta", {}).get("val") for each in returned])


def places(returned: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The tensors within what is returned, by where they lie in it: output_0, output_1_0, and the keys of dicts as they
    are. What else there is, such as None and numbers, is left out.
    """
    if isinstance(returned, Mapping):
        for key, inner in returned.items():
            yield from places(inner, f"{name}_{key}" if name else str(key))
    elif isinstance(returned, tuple | list):
        for index, inner in enumerate(returned):
            yield from places(inner, f"{name or 'output'}_{index}")
    elif is_tensor(returned):
        yield name or "output_0", returned


def is_tensor(value: Any) -> bool:
    """Whether this is one of PyTorch's, or stands in for one while a program is being looked at."""
    return hasattr(value, "detach")
