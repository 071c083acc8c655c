"""What the forms of documents are made of: a form says what is printed and, of what is imported, what is read back."""

import dataclasses
import re
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_type_hints

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetJsonSchemaHandler, SkipValidation, create_model
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from enginebench_controller.files.documents import DOCUMENTS, Document
from enginebench_controller.records import EngineRef
from enginebench_controller.records.figures import derived_figures, figures

R = TypeVar("R")
T = TypeVar("T")


def absent() -> None:
    """Stands for a key that a document lacks."""


Derived = Annotated[T, SkipValidation(), Field(default=None)]
"""What follows from the rest, or only tells: always printed, and not looked at in what is imported."""

Sometimes = Annotated[T, Field(default_factory=absent)]
"""What a document of its kind may lack; None then."""

_ID = re.compile(r"[0-9a-f]{12}|[0-9a-f]{32}")


def _as_made_here(text: str) -> str:
    if not _ID.fullmatch(text):
        raise ValueError("an id is 12 or 32 hexadecimal digits")
    return text


Id = Annotated[str, Field(min_length=1), AfterValidator(_as_made_here)]
"""What something is called for good. An id wins over a name, so that none of an import may be what a person chose."""

Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
Place = Annotated[int, Field(ge=0, lt=2**31)]
Series = list[Count]


class Form(BaseModel):
    """Base: numbers must be numbers, and fields that a later version added are passed over."""

    model_config = ConfigDict(extra="ignore", strict=True, defer_build=True)

    def to(self, record: type[R], **others: Any) -> R:
        """Make a record: of `others`, and for the rest of the fields that are called the same."""
        names = {one.name for one in fields(record)} - others.keys()  # type: ignore[arg-type]  # records are dataclasses
        return record(**{name: getattr(self, name) for name in names & type(self).model_fields.keys()}, **others)


class DocumentForm(Form):
    """Base of whole documents; `document` is the name in the table that has their version."""

    document: ClassVar[str]

    schema_version: Derived[int]

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Pydantic asks this for the schema: version and kind are those of the table."""
        made = handler(core_schema)
        own, found = handler.resolve_ref_schema(made)["properties"], DOCUMENTS[cls.document]
        own["schema_version"] = {"const": found.version}
        if found.kind:
            own["kind"] = {"const": found.kind}
        return made


F = TypeVar("F", bound=Form)


def with_fields_of(record: type, *, without: tuple[str, ...] = ()) -> Callable[[type[F]], type[F]]:
    """Add the fields of a record to a form, but for those that it has itself."""
    hints = get_type_hints(record, include_extras=True)
    own = {one.name: (hints[one.name], _default(one)) for one in fields(record) if one.name not in without}
    return lambda form: _extended(form, own)


def with_figures_of(record: type) -> Callable[[type[F]], type[F]]:
    """Add the figures of a record to a form: whole numbers never below zero, and those that follow from others.

    What is imported may lack those that the record can do without: they came with later versions.
    """
    hints = get_type_hints(record, include_extras=True)
    own = {one.name: (_whole(hints[one.name]), _default(one)) for one in fields(record) if one.name in figures(record)}
    makers = {name: vars(record)[name].fget for name in derived_figures(record)}
    told = {name: get_type_hints(maker, include_extras=True)["return"] for name, maker in makers.items()}
    unread = {name: (Annotated[hint, SkipValidation()], None) for name, hint in told.items()}  # type: ignore[type-arg]
    return lambda form: _extended(form, own | unread)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return Field(default_factory=field.default_factory)
    return ... if field.default is MISSING else field.default


def _whole(hint: Any) -> Any:
    kind, *told = get_args(hint)
    return Annotated[Count | None, *told] if kind == int | None else hint


def _extended(form: type[F], own: Document) -> type[F]:
    new = {name: field for name, field in own.items() if name not in form.model_fields}
    return create_model(form.__name__, __base__=form, __module__=form.__module__, __doc__=form.__doc__, **new)


class EngineForm(Form):
    """Which engine ran, in which environment; `version` is null until the agent told it."""

    name: str
    version: str | None
    environment: str


class ModelForm(Form):
    """Which version of which model."""

    name: str
    digest: str


class NamedForm(Form):
    """A benchmark by its id and name."""

    id: str
    name: str


class OutcomeForm(Form):
    """Whether all that was asked for can be used: ids of what has no numbers, and of what has wrong outputs."""

    sound: bool
    without_numbers: tuple[str, ...]
    wrong_outputs: tuple[str, ...]
    left_out: tuple[str, ...]


def engine_document(engine: EngineRef) -> Document:
    """Describe which engine ran."""
    return {"name": engine.name, "version": engine.version, "environment": engine.environment}
