"""The description of the endpoint for people, made from the one for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from trawlnet.crawlers.pds.web.markup import Markup, fill, joined, packaged
from trawlnet.crawlers.pds.web.page import page

_AT = Markup(' aria-current="page"')
_NOTHING = Markup("")
_JSON = "application/json"


@cache
def description() -> str:
    document = json.loads(packaged("openapi.json"))
    auth = document["components"]["securitySchemes"]["serviceAuth"]["description"]
    content = fill(
        "description",
        words=document["info"]["description"],
        operations=joined(_operations(document)),
        auth=auth,
    )
    return page("API of the PDS registry", content, at_docs=_AT)


def _operations(document: Mapping[str, Any]) -> Iterator[Markup]:
    schemas = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for verb, operation in methods.items():
            yield fill(
                "operation",
                id=operation["operationId"],
                verb=verb.upper(),
                path=path,
                summary=operation["summary"],
                words=operation.get("description", ""),
                parameters=_parameters(operation.get("parameters", []), schemas),
                request=_example("Body", operation.get("requestBody", {})),
                answers=joined(
                    fill("answer", status=status, words=answer["description"])
                    for status, answer in operation["responses"].items()
                ),
                example=_example("Answer", operation["responses"]["200"]),
            )


def _parameters(parameters: list[dict[str, Any]], schemas: Mapping[str, Any]) -> Markup:
    if not parameters:
        return _NOTHING
    rows = joined(
        fill(
            "parameter",
            name=one["name"],
            words=one["description"],
            kind=_kind(one["schema"], schemas),
        )
        for one in parameters
    )
    return fill("parameters", rows=rows)


def _kind(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    """What a parameter may be, in a few words."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    if "enum" in schema:
        return ", ".join(schema["enum"])
    if "maximum" in schema:
        return f"{schema['minimum']} to {schema['maximum']}; {schema['default']} if not said"
    return f"text of up to {schema['maxLength']} characters"


def _example(title: str, holder: Mapping[str, Any]) -> Markup:
    example = holder.get("content", {}).get(_JSON, {}).get("example")
    if example is None:
        return _NOTHING
    return fill("example", title=title, text=json.dumps(example, indent=2))
