"""Columns as features: scikit-learn's encoders, fitted once, kept as JSON and arrays.

A fitted encoder never changes afterwards: rows that come later are encoded as the first ones were,
and values that were not there then are counted, not learned.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ncgnn.data.tables.schema import Kind, parse_dates, parse_floats
from ncgnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from ncgnn.data.tables.reading import SourceTable
    from ncgnn.data.tables.schema import Column

State = tuple[dict[str, Any], dict[str, "NDArray[Any]"]]

# A category or word that occurs once says nothing of other rows; in small tables all are kept.
_SMALL_TABLE = 1000
_MOST_CATEGORIES = 20_000
_MOST_WORDS = 100_000
_YEAR, _WEEK = 365.2425, 7.0


@dataclass
class Unseen:
    """Values of later rows that were not there when an encoder was fitted.

    Attributes:
        rows: How many rows hold one.
        values: The commonest of them, with how often they occur.
    """

    rows: int = 0
    values: Counter[str] = field(default_factory=Counter[str])


class Encoder(ABC):
    """Turns one column into numbers."""

    kind: ClassVar[Kind]
    column: str

    @classmethod
    @abstractmethod
    def fit(cls, table: SourceTable, column: str) -> Encoder:
        """Learn from all rows of a table."""

    @abstractmethod
    def encode(self, table: SourceTable, unseen: Unseen) -> Any:
        """The features of the rows of a table, dense or sparse float32 [n, width]."""

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """A name per feature."""

    @abstractmethod
    def state(self) -> State:
        """All that was learned: plain values and arrays."""

    @classmethod
    @abstractmethod
    def restore(
        cls, column: str, values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> Encoder:
        """An encoder from its state."""


class NumberEncoder(Encoder):
    r"""(x - mean) / deviation; a missing value is 0 and, if some were, 1 in a column of its own."""

    kind: ClassVar[Kind] = "number"

    def __init__(self, column: str, scaler: Any, missing: bool) -> None:
        self.column, self.scaler, self.missing = column, scaler, missing

    @classmethod
    def values(cls, table: SourceTable, column: str) -> NDArray[np.float64]:
        """The numbers of a column [n, k], NaN where there is none."""
        return parse_floats(table, column, table.column(column, "columns"))[:, None]

    @classmethod
    def fit(cls, table: SourceTable, column: str) -> NumberEncoder:
        """Mean and deviation over the rows with a value."""
        from sklearn.preprocessing import StandardScaler

        values = cls.values(table, column)
        known = ~np.isnan(values).all(axis=0)
        if not known.all():
            raise InputError(
                f"{table.where}: column {column} holds no number; say what it is "
                f"(--column {column}=ignore)."
            )
        missing = bool(np.isnan(values).any())
        return cls(column, StandardScaler().fit(values), missing)

    def encode(self, table: SourceTable, unseen: Unseen) -> NDArray[np.float32]:
        """Scaled numbers [n, k], or [n, k + 1] with the column for missing ones."""
        values = self.values(table, self.column)
        if not values.shape[1]:  # lists, and all of them missing
            values = np.full((len(table), len(self.scaler.mean_)), np.nan)
        if values.shape[1] != len(self.scaler.mean_):
            raise InputError(
                f"{table.where}: column {self.column} must hold lists of "
                f"{len(self.scaler.mean_)} numbers; got {values.shape[1]}."
            )
        scaled = (values - self.scaler.mean_) / self.scaler.scale_
        absent = np.isnan(scaled)
        # Beyond this a number says nothing more, and float32 would end.
        scaled = np.clip(np.where(absent, 0.0, scaled), -1e6, 1e6)
        lacks = absent.any(axis=1)
        if self.missing:
            scaled = np.hstack([scaled, lacks[:, None]])
        elif lacks.any():
            unseen.rows += int(lacks.sum())
            unseen.values[""] += int(lacks.sum())
        return scaled.astype(np.float32)

    @property
    def names(self) -> list[str]:
        """The column's name, with a number after it where it holds several."""
        width = len(self.scaler.mean_)
        names = [self.column] if width == 1 else [f"{self.column} {i}" for i in range(width)]
        return [*names, f"{self.column} is missing"] if self.missing else names

    def state(self) -> State:
        """Mean and deviation."""
        arrays = {"mean": self.scaler.mean_, "scale": self.scaler.scale_}
        return {"missing": self.missing}, arrays

    @classmethod
    def restore(
        cls, column: str, values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> NumberEncoder:
        """With scikit-learn's scaler as it was."""
        from sklearn.preprocessing import StandardScaler

        scaler: Any = StandardScaler()
        scaler.mean_, scaler.scale_ = arrays["mean"], arrays["scale"]
        if scaler.mean_.ndim != 1 or scaler.mean_.shape != scaler.scale_.shape:
            raise InputError(f"the encoder of column {column} is damaged; import the tables again.")
        scaler.var_, scaler.n_features_in_ = scaler.scale_**2, len(scaler.mean_)
        return cls(column, scaler, bool(values["missing"]))


class SkewedEncoder(NumberEncoder):
    """sign(x)·log(1 + abs(x)), scaled."""

    kind: ClassVar[Kind] = "skewed"

    @classmethod
    def values(cls, table: SourceTable, column: str) -> NDArray[np.float64]:
        """Logarithms of the numbers."""
        plain = super().values(table, column)
        return np.sign(plain) * np.log1p(np.abs(plain))


class DateEncoder(NumberEncoder):
    """Days since 1970, and sine and cosine of the time of year and of the day of the week."""

    kind: ClassVar[Kind] = "date"

    @classmethod
    def values(cls, table: SourceTable, column: str) -> NDArray[np.float64]:
        """[n, 5]."""
        days = parse_dates(table, column, table.column(column, "columns"))
        turns = [2 * np.pi * days / _YEAR, 2 * np.pi * np.floor(days) / _WEEK]
        waves = [wave(turn) for turn in turns for wave in (np.sin, np.cos)]
        return np.stack([days, *waves], axis=1)

    @property
    def names(self) -> list[str]:
        """Parts of the date."""
        parts = ["", " season sin", " season cos", " weekday sin", " weekday cos"]
        names = [f"{self.column}{part}" for part in parts]
        return [*names, f"{self.column} is missing"] if self.missing else names


class ListEncoder(NumberEncoder):
    """Lists of equally many numbers, each scaled."""

    kind: ClassVar[Kind] = "list"

    @classmethod
    def values(cls, table: SourceTable, column: str) -> NDArray[np.float64]:
        """[n, k]."""
        lists = [
            _parse_list(table, row, column, value)
            for row, value in enumerate(table.column(column, "columns").to_pylist())
        ]
        width = next((len(numbers) for numbers in lists if numbers is not None), 0)
        for row, numbers in enumerate(lists):
            if numbers is not None and len(numbers) != width:
                raise InputError(
                    f"{table.at(row, column)}: it holds {len(numbers)} numbers, and the rows "
                    f"before {width}; give every row equally many."
                )
        blank = [np.nan] * width
        result = np.array([blank if one is None else one for one in lists], dtype=np.float64)
        return np.where(np.isfinite(result), result, np.nan).reshape(len(lists), width)


class CategoryEncoder(Encoder):
    """One column per value, by scikit-learn's ``OneHotEncoder``; other values are all zeros."""

    kind: ClassVar[Kind] = "category"

    def __init__(self, column: str, categories: Sequence[str]) -> None:
        from sklearn.preprocessing import OneHotEncoder

        self.column, self.categories = column, list(categories)
        values = np.array(self.categories, dtype=object)
        options: dict[str, Any] = {"categories": [values], "dtype": np.float32}
        encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=True, **options)
        self.encoder = encoder.fit(values[:1, None])
        self._known = set(self.categories)

    @classmethod
    def fit(cls, table: SourceTable, column: str) -> CategoryEncoder:
        """Keep the values that occur more than once, or all in a small table."""
        counts = Counter(_texts(table, column))
        least = 1 if len(table) < _SMALL_TABLE else 2
        kept = [value for value, count in counts.most_common(_MOST_CATEGORIES) if count >= least]
        if not kept:
            raise InputError(
                f"{table.where}: no value of column {column} occurs twice; say what it is "
                f"(--column {column}=ignore, or {column}=text)."
            )
        return cls(column, sorted(kept))

    def encode(self, table: SourceTable, unseen: Unseen) -> csr_array[Any]:
        """Ones and zeros."""
        from scipy.sparse import csr_array

        values = _texts(table, self.column)
        unknown = [value for value in values if value not in self._known]
        unseen.rows += len(unknown)
        unseen.values.update(unknown)
        return csr_array(self.encoder.transform(np.array(values, dtype=object)[:, None]))

    @property
    def names(self) -> list[str]:
        """Column and value."""
        return [f"{self.column} = {value or '(missing)'}" for value in self.categories]

    def state(self) -> State:
        """The values."""
        return {"categories": self.categories}, {}

    @classmethod
    def restore(
        cls, column: str, values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> CategoryEncoder:
        """With the same values in the same order."""
        return cls(column, [str(value) for value in values["categories"]])


class TextEncoder(Encoder):
    """TF-IDF of words and of pairs of neighboring words, by scikit-learn, rows of length one."""

    kind: ClassVar[Kind] = "text"

    def __init__(self, column: str, vectorizer: Any) -> None:
        self.column, self.vectorizer = column, vectorizer

    @classmethod
    def _vectorizer(cls, **options: Any) -> Any:
        from sklearn.feature_extraction.text import TfidfVectorizer

        options |= {"dtype": np.float32}
        return TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, **options)

    @classmethod
    def fit(cls, table: SourceTable, column: str) -> TextEncoder:
        """Keep words and pairs that occur in two rows, or all in a small table."""
        least = 1 if len(table) < _SMALL_TABLE else 2
        for fewest in dict.fromkeys((least, 1)):  # perhaps no word comes back
            vectorizer = cls._vectorizer(min_df=fewest, max_features=_MOST_WORDS)
            with suppress(ValueError):
                return cls(column, vectorizer.fit(_texts(table, column)))
        raise InputError(
            f"{table.where}: column {column} holds no words; say what it is "
            f"(--column {column}=ignore)."
        )

    def encode(self, table: SourceTable, unseen: Unseen) -> csr_array[Any]:
        """TF-IDF, sparse."""
        from scipy.sparse import csr_array

        texts = _texts(table, self.column)
        known, split = self.vectorizer.vocabulary_, self.vectorizer.build_tokenizer()
        for text in texts:
            unknown = [word for word in split(text.lower()) if word not in known]
            unseen.rows += bool(unknown)
            unseen.values.update(unknown)
        weights: Any = self.vectorizer.transform(texts)
        return csr_array(weights)

    @property
    def names(self) -> list[str]:
        """Column and words."""
        return [f"{self.column}: {words}" for words in self._words]

    @property
    def _words(self) -> list[str]:
        return self.vectorizer.get_feature_names_out().tolist()

    def state(self) -> State:
        """The words and their inverse document frequencies."""
        return {"words": self._words}, {"idf": self.vectorizer.idf_}

    @classmethod
    def restore(
        cls, column: str, values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> TextEncoder:
        """With the same words in the same order."""
        words, idf = [str(word) for word in values["words"]], arrays["idf"]
        if idf.shape != (len(words),):
            raise InputError(f"the encoder of column {column} is damaged; import the tables again.")
        vectorizer = cls._vectorizer(vocabulary={word: i for i, word in enumerate(words)})
        vectorizer.idf_ = idf
        return cls(column, vectorizer)


ENCODERS: dict[str, type[Encoder]] = {
    kind.kind: kind
    for kind in (
        NumberEncoder,
        SkewedEncoder,
        DateEncoder,
        ListEncoder,
        CategoryEncoder,
        TextEncoder,
    )
}


@dataclass(frozen=True, eq=False)
class Features:
    """The encoders of all columns, side by side."""

    encoders: tuple[Encoder, ...]

    @classmethod
    def fit(cls, table: SourceTable, columns: Sequence[Column]) -> Features:
        """Fit an encoder for every column that is not ignored."""
        return cls(
            tuple(
                ENCODERS[column.kind].fit(table, column.name)
                for column in columns
                if column.kind != "ignore"
            )
        )

    @property
    def names(self) -> list[str]:
        """A name per feature."""
        return [name for encoder in self.encoders for name in encoder.names]

    @cached_property
    def spans(self) -> dict[str, slice]:
        """Which features each column became."""
        ends = np.cumsum([0, *(len(encoder.names) for encoder in self.encoders)]).tolist()
        places = zip(self.encoders, pairwise(ends), strict=True)
        return {encoder.column: slice(*bounds) for encoder, bounds in places}

    def encode(self, table: SourceTable) -> tuple[Any, dict[str, Unseen]]:
        """Features [n, width], sparse if one column is, and what encoders had never seen."""
        unseen = {encoder.column: Unseen() for encoder in self.encoders}
        blocks = [encoder.encode(table, unseen[encoder.column]) for encoder in self.encoders]
        found = {column: one for column, one in unseen.items() if one.rows}
        if not blocks:
            return None, found
        if all(isinstance(block, np.ndarray) for block in blocks):
            return np.hstack(blocks), found
        from scipy.sparse import csr_array, hstack

        sparse = [csr_array(block) for block in blocks]
        return csr_array(hstack(sparse, format="csr"), dtype=np.float32), found

    def state(self) -> State:
        """The state of all encoders."""
        said: list[dict[str, Any]] = []
        arrays: dict[str, NDArray[Any]] = {}
        for number, encoder in enumerate(self.encoders):
            values, found = encoder.state()
            said.append({"column": encoder.column, "kind": encoder.kind, **values})
            arrays |= {f"{number}.{name}": array for name, array in found.items()}
        return {"encoders": said}, arrays

    @classmethod
    def restore(cls, values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Features:
        """Encoders from their state."""
        encoders: list[Encoder] = []
        for number, one in enumerate(values["encoders"]):
            own = {
                name.partition(".")[2]: array
                for name, array in arrays.items()
                if name.startswith(f"{number}.")
            }
            encoders.append(ENCODERS[one["kind"]].restore(str(one["column"]), one, own))
        return cls(tuple(encoders))


def _texts(table: SourceTable, column: str) -> list[str]:
    """The values of a column as texts, empty where there is none."""
    import pyarrow as pa

    values = table.column(column, "columns")
    if pa.types.is_nested(values.type):
        raise InputError(f"{table.where}: column {column} must hold texts; got {values.type}.")
    texts: list[str | None] = values.cast(pa.string()).to_pylist()
    return ["" if text is None else text for text in texts]


def _parse_list(table: SourceTable, row: int, column: str, value: Any) -> list[float] | None:
    """Numbers of a list, or of a text like "[1, 2.5]"."""
    if value is None or value == "":
        return None
    parts: Any = value
    if isinstance(value, str):
        parts = value.strip().strip("[]()").replace(",", " ").replace(";", " ").split()
    try:
        return [np.nan if part is None else float(part) for part in parts]
    except (TypeError, ValueError):
        raise InputError(
            f"{table.at(row, column)}: {str(value)[:60]!r} is no list of numbers; write it as "
            "[1, 2.5, 3]."
        ) from None
