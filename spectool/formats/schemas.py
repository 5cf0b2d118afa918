"""The published JSON Schemas: one catalogue, from which export, `spectool schema` and the tests work.

Draft 2020-12. Every file stands alone (its `$defs` are inside), so that an editor or `check-jsonschema --schemafile`
needs no network; `registry` holds them all by `$id` for schemas of others that point here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from spectool.errors import UsageError
from spectool.formats.configuration import EXAMPLE as CONFIGURATION_EXAMPLE
from spectool.formats.configuration import Configuration
from spectool.formats.deployment import EXAMPLE, Deployment
from spectool.formats.dialect import DialectFile
from spectool.formats.plan_record import PlanRecord
from spectool.formats.profile import Profile
from spectool.formats.provenance import Provenance
from spectool.formats.report_record import ReportRecord
from spectool.formats.speculators.examples import EXAMPLES
from spectool.formats.speculators.others import OTHERS
from spectool.formats.speculators.parse import MODELS
from spectool.formats.verifier import VerifierView
from spectool.resources import data_folder

BASE = "https://github.com/spectool/spectool/schemas/"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
SUFFIX = ".schema.json"
Schema = dict[str, Any]


@dataclass(frozen=True)
class Published:
    """One schema: its name on the command line, and how it is made."""

    name: str
    title: str
    description: str
    build: Callable[[], Schema]
    examples: tuple[Any, ...] = ()

    @property
    def filename(self) -> str:
        """The file in `schemas/`."""
        return f"{self.name}{SUFFIX}"

    def document(self) -> Schema:
        """Return the whole schema."""
        body = self.build()
        body.pop("title", None)
        body.pop("description", None)
        head = {"$schema": DIALECT, "$id": BASE + self.filename, "title": self.title, "description": self.description}
        definitions = {"$defs": body.pop("$defs")} if "$defs" in body else {}
        examples = {"examples": list(self.examples)} if self.examples else {}
        return {**head, **body, **examples, **definitions}


class _Generator(GenerateJsonSchema):
    """No defaults (the two sides' differ: `x-...-default` says which) and no titles that repeat a key's name."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _of(model: type[BaseModel]) -> Callable[[], Schema]:
    def build() -> Schema:
        schema: Schema = _plain(model.model_json_schema(schema_generator=_Generator))
        return schema

    return build


def _plain(value: Any) -> Any:
    """Drop class names as titles and join the lines of docstrings: both are for programmers, not for an editor."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    result = {name: _plain(item) for name, item in value.items()}
    if isinstance(result.get("title"), str) and ("type" in result or "$defs" in result):
        del result["title"]
    if isinstance(result.get("description"), str):
        result["description"] = " ".join(result["description"].split())
    return result


def _any_speculators() -> Schema:
    """Dispatch on the method; a config.json of any other model passes."""
    _, shared = models_json_schema([(model, "validation") for model in MODELS.values()], schema_generator=_Generator)
    definitions = _plain(shared["$defs"])
    marked = {"anyOf": [{"required": [name]} for name in ("speculators_model_type", "speculators_config")]}
    methods = [*MODELS, *OTHERS]
    known = {
        "required": ["speculators_model_type"],
        "properties": {"speculators_model_type": {"enum": methods, "description": "The method."}},
    }
    branches = [
        {
            "if": {
                "type": "object",
                "required": ["speculators_model_type"],
                "properties": {"speculators_model_type": {"const": method}},
            },
            "then": {"$ref": f"#/$defs/{model.__name__}"},
        }
        for method, model in MODELS.items()
    ]
    return {
        "allOf": [{"if": {"type": "object", **marked}, "then": known}, *branches],
        "$defs": definitions,
    }


_OTHERS = ", ".join(OTHERS)
CATALOGUE: tuple[Published, ...] = (
    Published(
        "speculators-config",
        "Speculators config.json",
        "The config.json of a speculative drafter in Speculators format (0.5 to 0.9), as vLLM 0.20 to 0.33 reads it. "
        f"peagle, dflash and dspark are described in full; {_OTHERS} are recognised. Any other model's config.json "
        "passes. What no schema can say (K against the block, causality) `spectool schema check` says.",
        _any_speculators,
        tuple(EXAMPLES.values()),
    ),
    *(
        Published(
            f"speculators-{method}",
            f"Speculators {method} config.json",
            (MODELS[method].__doc__ or "").split("\n")[0],
            _of(MODELS[method]),
            (EXAMPLES[method],),
        )
        for method in MODELS
    ),
    Published(
        "deployment",
        "spectool deployment file",
        "One drafter on one verifier on these GPUs, as a team keeps it in review.",
        _of(Deployment),
        (EXAMPLE,),
    ),
    Published(
        "configuration",
        "spectool configuration",
        "spectool.toml, or the table tool.spectool of pyproject.toml: defaults of `spectool validate`.",
        _of(Configuration),
        (CONFIGURATION_EXAMPLE,),
    ),
    Published(
        "dialect",
        "spectool dialect file",
        "How one producer stores one method: a TOML file of converters/.",
        _of(DialectFile),
    ),
    Published(
        "plan", "spectool conversion plan", "What `spectool convert --dry-run --format json` prints.", _of(PlanRecord)
    ),
    Published(
        "profile",
        "spectool profile",
        "Speed by K and load on one machine: `spectool probe --sweep` writes it, `spectool serve --profile` reads it.",
        _of(Profile),
    ),
    Published(
        "report", "spectool validation report", "What `spectool validate --format json` prints.", _of(ReportRecord)
    ),
    Published(
        "provenance",
        "spectool provenance.json",
        "Where every byte of a converted folder came from, and what was assumed on the way.",
        _of(Provenance),
    ),
    Published(
        "verifier",
        "spectool's view of a verifier",
        "What a drafter needs to know of its verifier, taken from config.json wherever the file nests it.",
        _of(VerifierView),
    ),
)


@cache
def published() -> dict[str, Published]:
    """Return the catalogue by name."""
    return {item.name: item for item in CATALOGUE}


def text_of(item: Published) -> str:
    """Return a schema as its file has it."""
    return json.dumps(item.document(), indent=2, ensure_ascii=False) + "\n"


def shipped_text(name: str) -> str:
    """Return a published schema as the installation ships it.

    Raises:
        UsageError: there is none of that name.

    """
    name = name.removesuffix(".json").removesuffix(".schema")
    if name not in published():
        raise UsageError(f"no schema named {name!r}", hint=f"Known schemas: {', '.join(published())}.")
    return (data_folder("schemas") / published()[name].filename).read_text(encoding="utf-8")


def registry() -> Any:
    """Return a `referencing.Registry` of all shipped schemas by `$id`: every `$ref` resolves offline."""
    from referencing import Registry, Resource  # noqa: PLC0415 - only who resolves references needs it

    documents = [json.loads(shipped_text(name)) for name in published()]
    return Registry().with_resources((document["$id"], Resource.from_contents(document)) for document in documents)
