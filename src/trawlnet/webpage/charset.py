"""Which encoding a page is in: byte order mark, header, meta tag, or what the bytes look like."""

from __future__ import annotations

import re

_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_HEAD = 1024  # Bytes in which the HTML standard looks for a declaration.
_HEADER = re.compile(r"charset\s*=\s*[\"']?\s*([^\s\"';,]{1,40})", re.IGNORECASE)
_META = re.compile(rb"<meta\b[^>]*?\bcharset\s*=\s*[\"']?\s*([^\s\"'/>;]{1,40})", re.IGNORECASE)
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)

# The labels of the WHATWG encoding standard, by the Python codec that reads what is meant: pages
# that say Latin-1 are in windows-1252. Any other label is ignored; Python's own list has codecs
# (utf-7, punycode, base64) that no remote may choose.
_LABELS = {
    "utf-8": "utf-8 utf8 unicode-1-1-utf-8 unicode11utf8 unicode20utf8 x-unicode20utf8",
    "utf-16-le": "utf-16 utf-16le csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff",
    "utf-16-be": "utf-16be unicodefffe",
    "cp1252": "windows-1252 cp1252 x-cp1252 ascii us-ascii ansi_x3.4-1968 iso-8859-1 iso8859-1"
    " iso88591 iso_8859-1 iso_8859-1:1987 iso-ir-100 latin1 l1 ibm819 cp819 csisolatin1",
    "cp1250": "windows-1250 cp1250 x-cp1250",
    "cp1251": "windows-1251 cp1251 x-cp1251",
    "cp1253": "windows-1253 cp1253 x-cp1253",
    "cp1254": "windows-1254 cp1254 x-cp1254 iso-8859-9 iso8859-9 iso88599 iso_8859-9 latin5 l5"
    " iso-ir-148 csisolatin5",
    "cp1255": "windows-1255 cp1255 x-cp1255",
    "cp1256": "windows-1256 cp1256 x-cp1256",
    "cp1257": "windows-1257 cp1257 x-cp1257",
    "cp1258": "windows-1258 cp1258 x-cp1258",
    "cp866": "ibm866 cp866 866 csibm866",
    "cp874": "windows-874 dos-874 iso-8859-11 iso8859-11 iso885911 tis-620",
    "iso8859-2": "iso-8859-2 iso8859-2 iso88592 iso_8859-2 latin2 l2 iso-ir-101 csisolatin2",
    "iso8859-3": "iso-8859-3 iso8859-3 iso88593 iso_8859-3 latin3 l3 iso-ir-109 csisolatin3",
    "iso8859-4": "iso-8859-4 iso8859-4 iso88594 iso_8859-4 latin4 l4 iso-ir-110 csisolatin4",
    "iso8859-5": "iso-8859-5 iso8859-5 iso88595 iso_8859-5 cyrillic iso-ir-144 csisolatincyrillic",
    "iso8859-6": "iso-8859-6 iso8859-6 iso88596 iso_8859-6 arabic ecma-114 asmo-708 iso-ir-127",
    "iso8859-7": "iso-8859-7 iso8859-7 iso88597 iso_8859-7 greek greek8 ecma-118 elot_928",
    "iso8859-8": "iso-8859-8 iso8859-8 iso88598 iso_8859-8 hebrew visual iso-8859-8-i logical",
    "iso8859-10": "iso-8859-10 iso8859-10 iso885910 latin6 l6 iso-ir-157 csisolatin6",
    "iso8859-13": "iso-8859-13 iso8859-13 iso885913",
    "iso8859-14": "iso-8859-14 iso8859-14 iso885914",
    "iso8859-15": "iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9 csisolatin9",
    "iso8859-16": "iso-8859-16",
    "koi8-r": "koi8-r koi8_r koi8 koi cskoi8r",
    "koi8-u": "koi8-u koi8-ru",
    "mac-roman": "macintosh mac x-mac-roman csmacintosh",
    "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "gb18030": "gb18030",
    "gbk": "gbk x-gbk gb2312 gb_2312 gb_2312-80 chinese csgb2312 iso-ir-58 csiso58gb231280",
    "big5hkscs": "big5 big5-hkscs cn-big5 x-x-big5 csbig5",
    "euc-jp": "euc-jp x-euc-jp cseucpkdfmtjapanese",
    "iso2022-jp": "iso-2022-jp csiso2022jp",
    "cp932": "shift_jis shift-jis sjis x-sjis ms932 ms_kanji windows-31j csshiftjis",
    "cp949": "euc-kr korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 windows-949 cseuckr"
    " csksc56011987 iso-ir-149",
}
_CODECS = {label: codec for codec, labels in _LABELS.items() for label in labels.split()}


def codec_for(label: str) -> str | None:
    """The Python codec for an encoding label of the web; None for one it does not know."""
    return _CODECS.get(label.strip().lower())


def codec_of(body: bytes, content_type: str = "") -> str:
    """The codec to read a page with."""
    for mark, codec in _BOMS:
        if body.startswith(mark):
            return codec
    said = _HEADER.search(content_type)
    if said and (declared := codec_for(said[1])):
        return declared
    return _from_meta(body[:_HEAD]) or _guess(body)


def _from_meta(head: bytes) -> str | None:
    if b"charset" not in head.lower():
        return None
    said = _META.search(_COMMENT.sub(b"", head))
    codec = codec_for(said[1].decode("latin-1")) if said else None
    # A tag that can be read without knowing about UTF-16 is not in UTF-16.
    return "utf-8" if codec in ("utf-16-le", "utf-16-be") else codec


def _guess(body: bytes) -> str:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        # A character that a size limit cut in two is no sign of another encoding.
        return "utf-8" if error.end >= len(body) and error.start >= len(body) - 3 else "cp1252"
    return "utf-8"


def as_utf8(body: bytes, codec: str) -> bytes:
    """The page in UTF-8, without its byte order mark."""
    for mark, marked in _BOMS:
        if codec == marked and body.startswith(mark):
            body = body[len(mark) :]
    if codec == "utf-8":
        return body
    # Both read the same; they differ in what they write.
    codec = "gb18030" if codec == "gbk" else codec
    return body.decode(codec, "replace").encode("utf-8", "replace")
