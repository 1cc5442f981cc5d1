"""What a statement that somebody typed or pasted asks of the embedded tables: pure.

The engine in this process has the user's rights on every file and host. `readonly` closes what
changes tables and every table function that leaves them; what it does not close is told here.
"""

from __future__ import annotations

import re
from typing import Final

# chDB streams results of SELECT alone; and a file that a stream writes is left without its end.
_SHORT_ANSWERS: Final = ("DESC", "DESCRIBE", "EXISTS", "EXPLAIN", "SHOW")
_COMMENT: Final = r"--[^\n]*|\#[ !][^\n]*|/\*.*?\*/"
_TEXT: Final = r"'(?:\\.|[^'\\])*'"
_NAME: Final = r'"(?:\\.|[^"\\])*"|`(?:\\.|[^`\\])*`'
_COMMENTS_AND_TEXTS: Final = re.compile(f"{_COMMENT}|{_TEXT}|({_NAME})", re.DOTALL)
_NAMES: Final = re.compile(_NAME, re.DOTALL)
_INTO_FILE: Final = re.compile(r"\bINTO\s+OUTFILE\b", re.IGNORECASE)
_CHANGES_FILE: Final = re.compile(r"\bOUTFILE\s+(?:AND\s+STDOUT\s+)?(?:TRUNCATE|APPEND)\b", re.I)
# The function of one row; the table function of that name `readonly` refuses.
_READS_FILE: Final = re.compile(r"""(?<![\w$])(?:file|"file"|`file`)\s*\(""")
_ESCAPED_CALL: Final = re.compile(rf"(?:{_NAME})\s*\(", re.DOTALL)


def is_answered_at_once(sql: str) -> bool:
    """Whether the answer is short, or goes to a file: such a one does not come piece by piece."""
    words = _NAMES.sub(" ", _without_texts(sql))
    first = words.split(None, 1)[:1]
    return first[0].upper() in _SHORT_ANSWERS or bool(_INTO_FILE.search(words)) if first else False


def refusal(sql: str) -> str:
    """Why the statement is not given to the engine; empty if it is."""
    words = _without_texts(sql)
    if _CHANGES_FILE.search(_NAMES.sub(" ", words)):
        return "INTO OUTFILE writes new files only, without TRUNCATE and APPEND"
    if _READS_FILE.search(words):
        return "file() reads what is not in the tables"
    if any("\\" in call for call in _ESCAPED_CALL.findall(words)):
        return "the name of a function is written with an escape"
    return ""


def _without_texts(sql: str) -> str:
    return _COMMENTS_AND_TEXTS.sub(lambda found: found[1] or " ", sql)
