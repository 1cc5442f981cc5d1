"""The activity hashes that are known: public numbers of the game, by activity and version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple


class KnownHash(NamedTuple):
    hash: int
    activity: str
    version: str


def known_hashes() -> Iterator[KnownHash]:
    for activity, versions in _ACTIVITIES.items():
        for version, hashes in versions.items():
            for hash_ in hashes:
                yield KnownHash(hash_, activity, version)


_ACTIVITIES: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "Leviathan": {
        "standard": (2693136600, 2693136601, 2693136602, 2693136603, 2693136604, 2693136605),
        "guided": (89727599, 287649202, 1699948563, 1875726950, 3916343513, 4039317196),
        "prestige": (
            *(417231112, 508802457, 757116822, 771164842, 1685065161, 1800508819),
            *(2449714930, 3446541099, 3857338478, 3879860661, 3912437239, 4206123728),
        ),
    },
    "Eater of Worlds": {
        "standard": (3089205900,),
        "guided": (2164432138,),
        "prestige": (809170886,),
    },
    "Spire of Stars": {
        "standard": (119944200,),
        "guided": (3004605630,),
        "prestige": (3213556450,),
    },
    "Last Wish": {
        "standard": (2122313384, 2214608156, 2214608157),
        "guided": (1661734046,),
    },
    "Scourge of the Past": {"standard": (548750096,), "guided": (2812525063,)},
    "Crown of Sorrow": {"standard": (3333172150,), "guided": (960175301,)},
    "Garden of Salvation": {
        "standard": (1042180643, 2659723068, 3458480158, 3845997235),
        "guided": (2497200493,),
    },
    "Deep Stone Crypt": {"standard": (910380154,), "guided": (3976949817,)},
    "Vault of Glass": {
        "standard": (3881495763,),
        "guided": (3711931140,),
        "contest": (1485585878,),
        "master": (1681562271, 3022541210),
    },
    "Vow of the Disciple": {
        "standard": (1441982566, 2906950631),
        "guided": (4156879541,),
        "master": (3889634515, 4217492330),
    },
    "King's Fall": {
        "standard": (1374392663,),
        "guided": (2897223272,),
        "contest": (1063970578,),
        "master": (2964135793, 3257594522),
    },
    "Root of Nightmares": {
        "standard": (2381413764,),
        "guided": (1191701339,),
        "master": (2918919505,),
    },
    "Crota's End": {
        "standard": (107319834, 4179289725),
        "guided": (4103176774,),
        "contest": (156253568,),
        "master": (1507509200,),
    },
    "The Pantheon": {
        "Atraks Sovereign": (4169648179,),
        "Oryx Exalted": (4169648176,),
        "Rhulk Indomitable": (4169648177,),
        "Nezarec Sublime": (4169648182,),
    },
    "Salvation's Edge": {
        "standard": (1541433876,),
        "contest": (2192826039,),
        "master": (4129614942,),
    },
    "The Desert Perpetual": {"standard": (1044919065,), "epic": (3817322389,)},
}
