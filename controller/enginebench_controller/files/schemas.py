"""JSON Schemas of all documents: `python -m enginebench_controller.files.schemas docs/reference/schemas`.

They say what is printed: every key is there, but for those that a kind of document may lack. None forbids further
keys, since later versions may add some.
"""

import json
import sys
from pathlib import Path

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from enginebench_controller.files.documents import DOCUMENTS, Document, DocumentKind
from enginebench_controller.files.forms import absent


class _AsPrinted(GenerateJsonSchema):
    """Defaults are for what is read: what is printed has them as values."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def field_is_required(
        self,
        field: core_schema.ModelField | core_schema.DataclassField | core_schema.TypedDictField,
        total: bool,  # pydantic's own signature
    ) -> bool:
        own = field["schema"]
        return not (own["type"] == "default" and own.get("default_factory") is absent)

    def field_title_should_be_set(self, schema: object) -> bool:
        return False


def schema(kind: DocumentKind) -> Document:
    """The JSON Schema of a kind of document."""
    made = TypeAdapter(kind.load()).json_schema(mode="serialization", schema_generator=_AsPrinted)
    return {"$schema": GenerateJsonSchema.schema_dialect} | made | {"title": f"enginebench {kind.name}"}


def pages() -> dict[str, str]:
    """The text of every file, by its name."""
    texts = {kind.name: json.dumps(schema(kind), indent=1, ensure_ascii=False) for kind in DOCUMENTS.values()}
    return {f"{name}.json": f"{text}\n" for name, text in texts.items()}


def write(folder: Path) -> None:
    """Write the files into a folder, and remove those of documents that are no more."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = pages()
    for old in folder.glob("*.json"):
        if old.name not in texts:
            old.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
