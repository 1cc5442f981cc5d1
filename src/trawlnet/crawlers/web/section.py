"""The base of all config sections: refuses unknown keys; an empty key means the default."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.fields import FieldInfo


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

    @model_validator(mode="before")
    @classmethod
    def _nothing_is_the_default(cls, values: Any) -> Any:
        """`deny_patterns:` without a value means none; null keeps its meaning elsewhere."""
        if not isinstance(values, dict):
            return values
        empty = [key for key, value in values.items() if value is None and key in cls.model_fields]
        needless = {key for key in empty if not _may_be_none(cls.model_fields[key])}
        return {key: value for key, value in values.items() if key not in needless}


def _may_be_none(field: FieldInfo) -> bool:
    return type(None) in get_args(field.annotation)


S = TypeVar("S", bound=Section)


def section(model: type[S]) -> S:
    """A field with the defaults of that section. The validator of the whole config builds it, so
    that no second validator is needed."""
    field: S = Field(default_factory=dict, validate_default=True)
    return field
