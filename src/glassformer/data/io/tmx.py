"""TMX, the format of translation memories: units of a text in several languages, read from XML one after the other."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.parsers import expat

from glassformer.config.errors import DataError
from glassformer.data.io.reading import byte_blocks

CODES = ("bpt", "ept", "it", "ph", "ut")
"""Elements within a text that hold the marks of the program it was written with, and no words."""


@dataclass(frozen=True)
class Unit:
    """A text in several languages."""

    line: int
    """Where it begins in its file."""
    texts: dict[str, str]
    """The texts by language, as the file orders them; of two texts in one language, the first."""


class TmxFile:
    """The units of a file, and the language that its header calls the source."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.source_language: str | None = None
        """Known once the first unit is."""
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._begin
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._read
        self._parser.EntityDeclHandler = self._refuse_entity
        self._parser.SkippedEntityHandler = self._refuse_reference
        self._root: str | None = None
        self._line, self._texts = 0, dict[str, str]()
        self._language: str | None = None
        self._text: list[str] | None = None
        """Pieces of the text that is being read; None outside of one."""
        self._codes = 0
        """How many elements of program marks are open."""
        self._done: list[Unit] = []

    def units(self) -> Iterator[Unit]:
        """Read once, and never held."""
        for block in byte_blocks(self.path):
            self._parse(block)
            yield from self._done
            self._done.clear()
        self._parse(b"", last=True)
        yield from self._done

    def _parse(self, block: bytes, last: bool = False) -> None:
        try:
            self._parser.Parse(block, last)
        except expat.ExpatError as error:
            what = expat.ErrorString(error.code)
            raise DataError(f"{self.path}, line {error.lineno:,}: damaged XML: {what}") from None
        except (LookupError, ValueError):  # what Python raises for encodings that it cannot give to the parser
            raise DataError(f"{self.path}: an encoding that cannot be read here: save it as UTF-8") from None

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        name = _local(name)
        if self._root is None:
            self._root = name
            if name != "tmx":
                raise DataError(f"{self._here()}: no TMX file: it begins with <{name}>, not <tmx>")
        if name == "header":
            self.source_language = code_of(attributes.get("srclang", "")) or None
        elif name == "tu":
            self._line, self._texts = self._parser.CurrentLineNumber, {}
        elif name == "tuv":
            named = {_local(key): value for key, value in attributes.items() if key != "lang"}
            self._language = code_of(named.get("lang") or attributes.get("lang", ""))
        elif name == "seg":
            self._text = []
        self._codes += name in CODES

    def _end(self, name: str) -> None:
        name = _local(name)
        self._codes -= name in CODES
        if name == "seg":
            if self._language and self._text is not None:
                self._texts.setdefault(self._language, re.sub(r"\s*\n\s*", " ", "".join(self._text)).strip())
            self._text = None
        elif name == "tu":
            self._done.append(Unit(self._line, self._texts))

    def _read(self, text: str) -> None:
        if self._text is not None and not self._codes:
            self._text.append(text)

    def _refuse_entity(self, name: str, *_: object) -> None:
        raise DataError(f"{self._here()}: declares an entity ('{name}'), which can make a file boundless: take it out")

    def _refuse_reference(self, name: str, is_parameter: bool) -> None:
        if not is_parameter:
            raise DataError(f"{self._here()}: an entity that is not known: &{name};")

    def _here(self) -> str:
        return f"{self.path}, line {self._parser.CurrentLineNumber:,}"


def code_of(language: str) -> str:
    """A language's code in one spelling: en, en-US, zh-Hans."""
    first, *others = language.strip().replace("_", "-").split("-")
    return "-".join([first.lower(), *(part.upper() if len(part) == 2 else part.capitalize() for part in others)])


def is_same(one: str, other: str) -> bool:
    """Whether one code is the other, or says less of it: en is en-US."""
    return one == other or one.startswith(f"{other}-") or other.startswith(f"{one}-")


def _local(name: str) -> str:
    """The name without its namespace."""
    return name.rpartition(" ")[2]
