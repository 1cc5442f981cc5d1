"""What a server may say about when to come back, drawn; and what that means, by its own making.

A law of its own: the seconds are drawn first and the headers written from them, so that nothing
here reads headers, as the crawlers do.
"""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import formatdate

from hypothesis import strategies as st

_BEGINNING = 1.7e9  # Of the world; a server's clock need not agree with anybody's.
_TOLD_ANYHOW = ("seconds", "fraction", "date", "date, no zone", "nonsense, then reset")
_TOLD_IF_SPENT = ("reset", "x reset", "instant", "x instant", "milliseconds", "lower case")
_TOLD_OF_429 = ("not spent", "no allowance")  # The status says by itself that it is used up.
_TELLS_NOTHING = ("nothing", "nonsense", "past", "endless text", "other digits")
SHAPES = (*_TOLD_ANYHOW, *_TOLD_IF_SPENT, *_TOLD_OF_429, *_TELLS_NOTHING)


@dataclass(frozen=True, slots=True)
class Stated:
    shape: str = "seconds"
    seconds: int = 7
    status: int = 429
    ahead: float = 0.0  # Of the server's clock.

    @property
    def wait(self) -> float:
        """Seconds in which nobody may ask."""
        is_heard = self.shape in _TOLD_ANYHOW + _TOLD_IF_SPENT
        is_heard = is_heard or (self.shape in _TOLD_OF_429 and self.status == 429)
        return float(self.seconds) if is_heard else 0.0

    def headers(self, now: float) -> dict[str, str]:
        """`now`: seconds since the beginning of the world."""
        theirs = int(_BEGINNING + self.ahead + now)
        then, seconds = theirs + self.seconds, str(self.seconds)
        dated = {"Date": formatdate(theirs, usegmt=True)}
        spent = {"RateLimit-Limit": "3000", "RateLimit-Remaining": "0"}
        x_spent = {"X-RateLimit-Remaining": "0"}
        return (
            dated
            | {
                "seconds": {"Retry-After": seconds},
                "fraction": {"Retry-After": f" {seconds}.0 "},
                "date": {"Retry-After": formatdate(then, usegmt=True)},
                "date, no zone": {
                    "Retry-After": formatdate(then, usegmt=True).removesuffix(" GMT")
                },
                "nonsense, then reset": spent | {"Retry-After": "soon", "RateLimit-Reset": seconds},
                "reset": spent | {"RateLimit-Reset": seconds, "RateLimit-Policy": "3000;w=300"},
                "x reset": x_spent | {"X-RateLimit-Reset": seconds},
                "instant": spent | {"RateLimit-Reset": str(then)},
                "x instant": x_spent | {"X-RateLimit-Reset": str(then)},
                "milliseconds": x_spent | {"X-RateLimit-Reset": f"{then}000"},
                "lower case": {"ratelimit-remaining": "0", "ratelimit-reset": seconds},
                "not spent": {"RateLimit-Remaining": "7", "RateLimit-Reset": seconds},
                "no allowance": {"X-RateLimit-Reset": str(then)},
                "nothing": {},
                "nonsense": {
                    "Retry-After": "1e3",
                    "RateLimit-Reset": "nan",
                    "X-RateLimit-Reset": "-",
                },
                "past": {"Retry-After": formatdate(theirs - 60, usegmt=True)},
                "endless text": {"Retry-After": "9" * 5000},
                "other digits": {"Retry-After": "\u0663"},
            }[self.shape]
        )


def stated(*seconds: int, statuses: tuple[int, ...] = (429,)) -> st.SearchStrategy[Stated]:
    return st.builds(
        Stated,
        st.sampled_from(SHAPES),
        st.sampled_from(seconds),
        st.sampled_from(statuses),
        st.sampled_from((0.0, 0.0, 7000.5, -90_000.0)),
    )


PLAIN = Stated()  # As most say it.
