"""What the columns of tables mean: guessed from their values, shown, stored, and editable."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import numpy as np
from pydantic import Field, ValidationError

from ncgnn._io import as_path, parse_toml
from ncgnn.data.tables.reading import shorten
from ncgnn.errors import InputError, UnknownNameError
from ncgnn.options import Options

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from ncgnn.data.tables.reading import SourceTable

Kind = Literal["number", "skewed", "category", "date", "text", "list", "ignore"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Direction = Literal["both", "forward", "backward"]
Unknown = Literal["error", "drop", "add"]

#: What a kind of column becomes.
MEANING: dict[Kind, str] = {
    "number": "scaled to mean 0 and deviation 1",
    "skewed": "its logarithm, scaled",
    "category": "one column per value",
    "date": "time, season and day of the week",
    "text": "TF-IDF of words and pairs of words",
    "list": "numbers, each scaled",
    "ignore": "not used",
}
#: Format of ``schema.toml``.
FORMAT = 1

#: Texts that stand for no value, in columns whose other values are numbers or dates.
MISSING = frozenset(["na", "n/a", "nan", "null", "none", "-", "?", ".", "<na>", "nat"])
# A column of which so large a share are numbers is meant to hold nothing else.
_MOSTLY = 0.9
# The skewness from which on a logarithm says more than the number itself.
_SKEWED = 3.0
# Squares of larger numbers overflow.
_LARGEST = 1e150
# A category is worth a column per value if a value comes back this often on average.
_REPEATS = 4
_FEW = 20
_WHOLE = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|[+-]?inf(inity)?", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([T ]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?)?(Z|[+-]\d\d:?\d\d)?")
_WORD = re.compile(r"\b\w\w+\b")
_LIST = re.compile(r"\s*[\[(].*[\])]\s*", re.DOTALL)


class NodeColumns(Options):
    """The ``[nodes]`` section of a schema."""

    id: str
    """Column with a different name or whole number in every row."""
    label: str | None = None
    """Column with the class; empty where it is unknown."""
    split: str | None = None
    """Column that says train, val or test."""
    time: str | None = None
    """Column with a date or number by which nodes are split into earlier and later ones."""


class EdgeColumns(Options):
    """The ``[edges]`` section of a schema."""

    source: str
    """Column with the id that an edge starts from."""
    target: str
    """Column with the id that it points to."""
    weight: str | None = None
    """Column with a positive number."""
    kind: str | None = None
    """Column with the kind of an edge."""
    kinds: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] | None = None
    """Kinds that count, with their weights; by default all, with weight 1."""
    direction: Direction = "both"
    """Whether a node hears from ``both`` ends of an edge, or messages pass ``forward`` from source
    to target or ``backward`` only."""
    unknown: Unknown = "error"
    """What happens to ends that are no node: ``error``, ``drop`` the edge, or ``add`` the node."""


class Schema(Options):
    """Everything that was decided about a pair of tables."""

    nodes: NodeColumns
    edges: EdgeColumns | None = None
    columns: dict[str, Kind] = Field(default_factory=dict)
    """The kind of every other column of the nodes."""

    def to_toml(self) -> str:
        """The editable file."""
        import tomli_w

        sections = {
            name: {key: value for key, value in table.items() if value is not None}
            for name, table in self.model_dump(mode="json", exclude_none=True).items()
        }
        kinds = "\n".join(f"#   {kind:<9} {MEANING[kind]}" for kind in KINDS)
        return (
            "# What the columns mean. Edit it and import again with --schema.\n"
            f"# Kinds of columns:\n{kinds}\n\n{tomli_w.dumps({'format': FORMAT, **sections})}"
        )


def read_schema(path: Path | str) -> Schema:
    """Read ``schema.toml``; the error names the field."""
    path = as_path(path)
    try:
        tree = parse_toml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}; 'ncgnn import' writes a schema.toml.") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not a readable TOML file ({error}).") from None
    if (number := tree.pop("format", FORMAT)) != FORMAT:
        raise InputError(f"{path}: format must be {FORMAT}; got {number!r}.")
    return parse_schema(tree, str(path))


def parse_schema(tree: Mapping[str, Any], where: str) -> Schema:
    """A schema from nested dictionaries; the error names the field."""
    try:
        return Schema.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        message = str(first["msg"]).replace("Input should be", "must be")
        if first["type"] == "extra_forbidden":
            message = "there is no such field"
        raise InputError(f"{where}: {field}: {message}.") from None


@dataclass(frozen=True)
class Column:
    """A column of the nodes, as it was found.

    Attributes:
        name: Its name.
        kind: What it is taken for.
        why: What made us think so.
        missing: How many rows have no value.
        different: How many different values there are.
        example: One of them.
    """

    name: str
    kind: Kind
    why: str
    missing: int
    different: int
    example: str


def describe_columns(table: SourceTable, given: Mapping[str, str], skip: set[str]) -> list[Column]:
    """What each column of the nodes is, given or guessed.

    Args:
        table: The nodes.
        given: Kinds that the user names.
        skip: Columns that are no features: id, label, split and time.

    Raises:
        InputError: An unknown column or kind, or a column with numbers and other things.
    """
    for name, kind in given.items():
        if name not in table.columns:
            raise InputError(
                f"{table.where}: there is no column '{name}' (column kinds); its columns are "
                f"{shorten(', '.join(table.columns), 200)}."
            )
        if kind not in KINDS:
            raise UnknownNameError("kind of column", kind, list(KINDS))
    return [_describe(table, name, given.get(name)) for name in table.columns if name not in skip]


def _describe(table: SourceTable, name: str, given: Any) -> Column:
    import pyarrow as pa

    column = table.column(name, "a column of the nodes")
    missing = int(column.null_count)
    known = column.drop_null()
    nested = pa.types.is_nested(column.type)
    different = len(known) if nested else len(known.unique())
    example = _show(known[:1]) if len(known) else ""
    kind, why = (given, "as given") if given else _guess(table, name, column, known, different)
    if kind in ("number", "skewed", "date") and is_text_type(column.type):
        values = [value for value in known.to_pylist() if value.strip().lower() not in MISSING]
        missing = len(column) - len(values)
        example = values[0] if values else ""
    return Column(name, kind, why, missing, different, example)


def _show(value: Any) -> str:
    """The only value of an array in words."""
    try:
        return str(value[0].as_py())
    except (ValueError, OverflowError, LookupError):  # nanoseconds, far years, odd time zones
        return str(value.cast("string")[0].as_py())


def _guess(
    table: SourceTable, name: str, column: Any, known: Any, different: int
) -> tuple[Kind, str]:
    import pyarrow as pa

    if not len(known):
        return "ignore", "it is empty"
    if different == 1 and not pa.types.is_nested(column.type):
        return "ignore", "one value only"
    if name.startswith("unnamed "):
        return "ignore", "it has no name"
    if _is_list_type(column.type) and _is_number_type(column.type.value_type):
        return "list", "lists of numbers"
    if pa.types.is_temporal(column.type) and not pa.types.is_interval(column.type):
        return "date", "dates"
    if pa.types.is_boolean(column.type):
        return "category", "yes or no"
    if _is_number_type(column.type):
        return _guess_number(to_floats(column))
    if not is_text_type(column.type):
        return "ignore", f"values of type {column.type}"
    return _guess_text(table, name, known, different)


def _guess_text(table: SourceTable, name: str, known: Any, different: int) -> tuple[Kind, str]:
    values: list[str] = known.cast("string").to_pylist()
    plain = [value for value in values if value.strip().lower() not in MISSING] or values
    for pattern, kind, what in ((_NUMBER, "number", "a number"), (_DATE, "date", "a date")):
        fits = [bool(pattern.fullmatch(value.strip())) for value in plain]
        share = sum(fits) / len(plain)
        if share == 1:
            if kind == "date":
                return "date", "dates"
            return _guess_number(np.array([float(value) for value in plain]))
        if share >= _MOSTLY:
            wrong = plain[fits.index(False)]
            raise InputError(
                f"{table.at(find_text(table, name, wrong), name)}: {shorten(wrong)!r} is not "
                f"{what}, as "
                f"{sum(fits):,} of {len(plain):,} values are; correct it, or say what the column "
                f"is (--column {name}=category, or {name}=ignore)."
            )
    if all(_LIST.fullmatch(value) for value in plain):
        return "list", "lists of numbers"
    words = float(np.mean([len(_WORD.findall(value)) for value in plain]))
    if different <= max(_FEW, len(plain) / _REPEATS) and different < 0.8 * len(plain):
        return "category", f"{different:,} values that come back"
    if words >= 2:
        return "text", f"{words:.0f} words on average"
    return "ignore", "nearly every value is different"


def _guess_number(values: NDArray[np.float64]) -> tuple[Kind, str]:
    values = values[np.isfinite(values)]
    if not len(values):
        return "ignore", "no finite number"
    steps = np.diff(values)
    if len(values) > 10 and (steps == 1).all():
        return "ignore", "it counts the rows"
    if np.abs(values).max() > _LARGEST:
        return "skewed", "huge numbers"
    center, spread = values.mean(), values.std()
    skewness = float(np.mean(((values - center) / spread) ** 3)) if spread > 0 else 0.0
    if abs(skewness) > _SKEWED:
        return "skewed", f"numbers with a long tail (skewness {skewness:.0f})"
    return "number", "numbers"


def is_text_type(kind: Any) -> bool:
    """Whether an Arrow type is one of texts."""
    import pyarrow as pa

    types = pa.types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _is_number_type(kind: Any) -> bool:
    import pyarrow as pa

    types = pa.types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)


def _is_list_type(kind: Any) -> bool:
    import pyarrow as pa

    types = pa.types
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def to_floats(column: Any) -> NDArray[np.float64]:
    """Numbers of an Arrow column of any numeric type; NaN where there is none."""
    import pyarrow as pa

    return column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False).astype(np.float64)


def parse_floats(table: SourceTable, name: str, column: Any) -> NDArray[np.float64]:
    """Numbers of a column of numbers or texts; NaN where there is none or it is not finite.

    Raises:
        InputError: A value is not a number; it names row and column.
    """
    import pyarrow as pa

    if not is_text_type(column.type):
        try:
            values = to_floats(column)
        except pa.ArrowException:
            raise InputError(
                f"{table.where}: column {name} must hold numbers; got {column.type}."
            ) from None
        return np.where(np.isfinite(values), values, np.nan)
    result = np.full(len(column), np.nan)
    for row, value in enumerate(column.to_pylist()):
        text = "" if value is None else value.strip()
        if text and text.lower() not in MISSING:
            if not _NUMBER.fullmatch(text):
                raise InputError(
                    f"{table.at(row, name)}: {shorten(str(value))!r} is not a number; correct "
                    "it, or leave it "
                    "empty."
                )
            result[row] = float(text)
    return np.where(np.isfinite(result), result, np.nan)


def parse_dates(table: SourceTable, name: str, column: Any) -> NDArray[np.float64]:
    """Days since 1970 of a column of dates, texts like 2024-05-31, or numbers; NaN for none."""
    import pyarrow as pa

    if pa.types.is_temporal(column.type):
        if pa.types.is_interval(column.type):
            raise InputError(f"{table.where}: column {name} must hold dates; got {column.type}.")
        if pa.types.is_time(column.type) or pa.types.is_duration(column.type):
            if column.type.bit_width == 32:
                column = column.cast(pa.int32())
            return parse_floats(table, name, column.cast(pa.int64(), safe=False))
        stamps = column.cast(pa.timestamp("us"), safe=False)
        values = stamps.cast(pa.int64(), safe=False)
        return to_floats(values) / 86_400e6
    if not is_text_type(column.type):
        return parse_floats(table, name, column)
    result = np.full(len(column), np.nan)
    forms: dict[bool, int] = {}
    for row, value in enumerate(column.to_pylist()):
        text = "" if value is None else value.strip()
        if not text or text.lower() in MISSING:
            continue
        is_number = bool(_WHOLE.fullmatch(text)) and len(text) != 8
        try:
            # Of a year or a number of days the order is what counts.
            result[row] = float(text) if is_number else _parse_date(text)
        except ValueError:
            raise InputError(
                f"{table.at(row, name)}: {shorten(str(value))!r} is not a date; write it as "
                "2024-05-31, with a time after it if there is one."
            ) from None
        forms.setdefault(is_number, row)
    if len(forms) > 1:
        raise InputError(
            f"{table.at(max(forms.values()), name)}: the column holds both dates and plain numbers "
            "such as years, which cannot be compared; write all as 2024-05-31."
        )
    return result


def _parse_date(text: str) -> float:
    from datetime import UTC, datetime

    stamp = datetime.fromisoformat(text)
    stamp = stamp if stamp.tzinfo is not None else stamp.replace(tzinfo=UTC)
    return stamp.timestamp() / 86_400


def find_text(table: SourceTable, name: str, value: str) -> int:
    """The first row of a column that holds a text."""
    return table.column(name, "a column").cast("string").to_pylist().index(value)
