"""What all sections of the config share: unknown keys are mistakes, nothing is the default."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"a regular expression ({error})") from None
    return text


def _scope_pattern(text: str) -> str:
    if re.compile(_pattern(text)).groups < 1:
        raise ValueError("a regular expression with a group (…) around what names the scope")
    return text


Pattern = Annotated[str, AfterValidator(_pattern)]
ScopePattern = Annotated[str, AfterValidator(_scope_pattern)]


class Section(BaseModel):
    # Deferred: a command that does not read this section does not pay for its validators.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @field_validator("*", mode="before")
    @classmethod
    def _nothing_is_the_default(cls, value: Any, info: ValidationInfo) -> Any:
        """`deny_patterns:` with nothing after it means none; null keeps its meaning elsewhere."""
        field = cls.model_fields[info.field_name or ""]
        if value is None and type(None) not in get_args(field.annotation):
            return field.get_default(call_default_factory=True, validated_data={})
        return value


S = TypeVar("S", bound=Section)


def section(model: type[S]) -> S:
    """A field with the defaults of that section."""
    field: S = Field(default_factory=lambda: model.model_validate({}))
    return field
