"""Read pairs of texts from two files with corresponding lines, or from a translation memory (TMX)."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.parsers import expat

from glassformer.config.errors import DataError
from glassformer.config.limits import limits, refuse_beyond
from glassformer.config.sections import DataSettings
from glassformer.data.io.place import find
from glassformer.data.io.reading import BLOCK, HeldMemory, byte_blocks, check_encoding, held_lines
from glassformer.data.io.rows import kind_of
from glassformer.data.io.table import Table, read_table
from glassformer.data.wording import counted

SOURCE, TARGET = "source", "target"
"""Names of the columns."""

# --- TMX: units of a text in several languages, in XML ---

CODES = ("bpt", "ept", "it", "ph", "ut")
"""Elements within a text that contain formatting codes instead of words."""


@dataclass(frozen=True)
class Unit:
    """A text in several languages."""

    line: int
    """Line on which it begins in its file."""
    texts: dict[str, str]
    """The texts by language, in the order of the file; the first text of each language."""


UNIT_CELLS = 50
"""Number of list items that need as much memory as a unit besides its texts."""


class TmxFile:
    """The units of a TMX file, and the source language in its header."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.source_language: str | None = None
        """The language; None until the first unit was read."""
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
        self._text: list[str] | None = None  # pieces of the current text; None outside of a text
        self._length = 0  # characters of the current text
        self._codes = 0  # number of open elements with formatting codes
        self._depth = 0  # number of open elements
        self._done: list[Unit] = []

    def units(self) -> Iterator[Unit]:
        """Yield the units. The file can be read only once."""
        for block in itertools.chain(self._whole_steps(), [b""]):
            try:
                self._parser.Parse(block, not block)
            except expat.ExpatError as error:
                what = f"damaged XML: mend it, or save it again ({expat.ErrorString(error.code)})"
                raise DataError(f"{self.path}, line {error.lineno:,}: {what}") from None
            except (LookupError, ValueError):  # an encoding that the parser cannot read
                raise DataError(f"{self.path}: an encoding that cannot be read here: save it as UTF-8") from None
            yield from self._done
            self._done.clear()

    def _whole_steps(self) -> Iterator[bytes]:
        """Yield the file in blocks that grow within a tag, because the parser starts a tag again with every block."""
        read, held = 0, list[bytes]()
        for block in byte_blocks(self.path):
            read += len(block)
            held.append(block)
            new = sum(map(len, held))
            unread = read - max(0, self._parser.CurrentByteIndex)
            refuse_beyond("field_bytes", unread - BLOCK, f"{self._here()}: a tag of {{}} and more")
            if 2 * new >= unread:
                yield b"".join(held)
                held.clear()
        if held:
            yield b"".join(held)

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        name = _local(name)
        self._depth += 1
        if self._depth > limits().json_depth:
            refuse_beyond("json_depth", self._depth, f"{self._here()}: elements within one another, {{}} deep")
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
            self._text, self._length = [], 0
        self._codes += name in CODES

    def _end(self, name: str) -> None:
        name = _local(name)
        self._depth -= 1
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
            self._length += len(text)
            if self._length > limits().field_bytes:
                refuse_beyond("field_bytes", self._length, f"{self._here()}: a text of {{}} and more")

    def _refuse_entity(self, name: str, *_: object) -> None:
        raise DataError(f"{self._here()}: declares an entity ('{name}'), which can make a file boundless: take it out")

    def _refuse_reference(self, name: str, is_parameter: bool) -> None:
        if not is_parameter:
            raise DataError(f"{self._here()}: an entity that is not known: &{name};")

    def _here(self) -> str:
        return f"{self.path}, line {self._parser.CurrentLineNumber:,}"


def code_of(language: str) -> str:
    """Return the code of a language in its canonical spelling: en, en-US, zh-Hans."""
    first, *others = language.strip().replace("_", "-").split("-")
    return "-".join([first.lower(), *(part.upper() if len(part) == 2 else part.capitalize() for part in others)])


def is_same(one: str, other: str) -> bool:
    """Return whether two codes are equal or one is more general, as en and en-US."""
    return one == other or one.startswith(f"{other}-") or other.startswith(f"{one}-")


def _local(name: str) -> str:
    """Return a name without its namespace."""
    return name.rpartition(" ")[2]


# --- reading ---


def is_tmx(path_or_name: str) -> bool:
    """Return whether a file is a translation memory, by its name alone."""
    return kind_of(Path(path_or_name)) == "tmx"


def read_pairs(path_or_name: str, settings: DataSettings) -> Table:
    """Read a translation memory, or a table."""
    if is_tmx(path_or_name):
        try:
            return read_tmx(path_or_name, settings.source, settings.target)
        except DataError:
            if is_tmx(settings.path or ""):
                raise
            return read_tmx(path_or_name)  # source and target are columns of a table, not languages
    return read_table(path_or_name, settings)


def read_aligned(source_file: str, target_file: str, encoding: str) -> Table:
    """Read two files; line n of one is the translation of line n of the other."""
    check_encoding(encoding)
    sources, targets = (held_lines(_file(file), encoding) for file in (source_file, target_file))
    if len(sources) != len(targets):
        sizes = f"{source_file} has {counted(len(sources), 'line')} and {target_file} has {len(targets):,}"
        raise DataError(f"{sizes}: line n of one must be the translation of line n of the other")
    if not sources:
        raise DataError(f"{source_file} and {target_file} are empty: there is no text in them")
    lines = list(range(1, len(sources) + 1))
    return Table(f"{source_file} and {target_file}", {SOURCE: sources, TARGET: targets}, lines)


def _file(name: str) -> Path:
    path = find(name)
    if path is None or not path.is_file():
        raise DataError(f"{name} is no file: pairs of texts are read from files")
    return path


def read_tmx(path: str, source: str | None = None, target: str | None = None) -> Table:
    """Read the units that have both languages. `source` and `target`: their codes; en also stands for en-US.

    By default, they are the only two languages of the file, and the source is the one in the header, or the first one.
    """
    file = TmxFile(_file(path))
    held, units = HeldMemory(path, file.path.stat().st_size), list[Unit]()
    for unit in file.units():
        units.append(unit)
        held.add(unit.texts.values(), cells=UNIT_CELLS * len(units))
    if not any(unit.texts for unit in units):
        raise DataError(f"{path} is empty: there is no text in it")
    asked = {"source": source and code_of(source), "target": target and code_of(target)}
    one, other = _two_languages(path, _languages(units), asked, file.source_language)
    rows = [(unit.line, _text(unit, one), _text(unit, other)) for unit in units]
    full = [(line, first, second) for line, first, second in rows if first is not None and second is not None]
    if not full:
        raise DataError(f"{path}: no unit has a text in {one} and one in {other}: see --source and --target")
    lost = len(units) - len(full)
    remarks = [f"from {one} to {other} (--source, --target)"]
    if lost:
        remarks.append(f"left out: {counted(lost, 'unit')} without a text in {one} or {other}")
    lines, sources, targets = (list(column) for column in zip(*full, strict=True))
    return Table(path, {SOURCE: sources, TARGET: targets}, lines, remarks=tuple(remarks))


def _languages(units: list[Unit]) -> list[str]:
    """Return the languages in their order; en-US and en-GB count as one if two languages remain."""
    seen = list(dict.fromkeys(itertools.chain.from_iterable(unit.texts for unit in units)))
    plain = list(dict.fromkeys(language.partition("-")[0] for language in seen))
    return plain if len(plain) == 2 else seen


def _two_languages(path: str, there: list[str], asked: dict[str, str | None], usual: str | None) -> tuple[str, str]:
    """Return the languages to translate from and into. `usual`: the source, unless another one is asked for."""
    for role, language in asked.items():
        if language and not any(is_same(language, other) for other in there):
            raise DataError(f"{path}: no text in '{language}' (languages: {', '.join(there)}): name one with --{role}")
    source, target = asked["source"], asked["target"]
    named = [language for language in (source, target) if language]
    rest = [language for language in there if not any(is_same(one, language) for one in named)]
    if not named and len(there) == 2:
        rest.sort(key=lambda language: not (usual and is_same(usual, language)))
        return rest[0], rest[1]
    if len(named) == 2 and not is_same(*named):
        return named[0], named[1]
    if len(named) == 1 and len(rest) == 1:
        return source or rest[0], target or rest[0]
    raise DataError(f"{path} has texts in {', '.join(there)}: choose two languages with --source and --target")


def _text(unit: Unit, language: str) -> str | None:
    others = (text for code, text in unit.texts.items() if is_same(language, code))
    return unit.texts.get(language) or next(others, None)
