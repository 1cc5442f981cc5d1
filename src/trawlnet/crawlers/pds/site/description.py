"""The description of the endpoint as a page, made from its OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from trawlnet.crawlers.pds.site.page import packaged
from trawlnet.observe.reports.html import render

_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class _Parameter:
    name: str
    words: str
    kind: str  # Its type, as text.


@dataclass(frozen=True, slots=True)
class _Operation:
    id: str
    verb: str
    path: str
    summary: str
    words: str
    parameters: list[_Parameter]
    examples: dict[str, str]
    answers: dict[str, str]  # By status.


@cache
def description() -> str:
    document = json.loads(packaged("openapi.json"))
    return render(
        __package__,
        "description.html",
        title="API of the PDS registry",
        here="docs",
        words=document["info"]["description"],
        operations=list(_operations(document)),
        auth=document["components"]["securitySchemes"]["serviceAuth"]["description"],
    )


def _operations(document: Mapping[str, Any]) -> Iterator[_Operation]:
    schemas = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for verb, operation in methods.items():
            answers = operation["responses"]
            yield _Operation(
                id=operation["operationId"],
                verb=verb.upper(),
                path=path,
                summary=operation["summary"],
                words=operation.get("description", ""),
                parameters=[
                    _Parameter(one["name"], one["description"], _kind(one["schema"], schemas))
                    for one in operation.get("parameters", [])
                ],
                examples=_example("Request body", operation.get("requestBody", {}))
                | _example("Response", answers["200"]),
                answers={status: answer["description"] for status, answer in answers.items()},
            )


def _kind(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    """The type of a parameter, as text."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    if "enum" in schema:
        return ", ".join(schema["enum"])
    if "maximum" in schema:
        return f"{schema['minimum']} to {schema['maximum']}; default {schema['default']}"
    return f"text of up to {schema['maxLength']} characters"


def _example(heading: str, holder: Mapping[str, Any]) -> dict[str, str]:
    example = holder.get("content", {}).get(_JSON, {}).get("example")
    return {} if example is None else {heading: json.dumps(example, indent=2)}
