"""A CSR matrix from the four arrays of a file, checked before anything indexes with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ncgnn.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

CSR_PARTS = ("data", "indices", "indptr", "shape")


def csr_from_parts(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    shape: NDArray[Any],
    *,
    where: str,
    prefix: str,
) -> csr_array[Any]:
    """Build a CSR matrix with sorted columns; an :class:`InputError` names what is wrong.

    Args:
        data: Values [nnz].
        indices: Column of each value [nnz].
        indptr: Where each row starts [rows + 1].
        shape: The two numbers rows and columns.
        where: The file, for messages.
        prefix: What stands before ``data`` in the file's key, for messages.

    Returns:
        The matrix, float32 or (for float64 input) float64.
    """
    import numpy as np
    from scipy.sparse import csr_array

    def name(part: str) -> str:
        return f"{where}: '{prefix}{part}'"

    rows, columns = _two_sizes(shape, name("shape"))
    starts = _integers(indptr, name("indptr"))
    column_of = _integers(indices, name("indices"))
    if data.ndim != 1:
        raise InputError(f"{name('data')} has {data.ndim} dimensions; it must have one")
    values = real_values(data, name("data"))
    if len(column_of) != len(values):
        raise InputError(
            f"{name('indices')} has {len(column_of)} entries but '{prefix}data' has "
            f"{len(values)}; give every value one column"
        )
    _check_row_starts(starts, rows, len(values), name("indptr"))
    if len(column_of) and (column_of.min() < 0 or column_of.max() >= columns):
        raise InputError(
            f"{name('indices')} holds a column outside 0..{columns - 1}; "
            f"number the columns from 0 and make '{prefix}shape' large enough"
        )
    fits = max(columns, len(values)) < np.iinfo(np.int32).max
    index_type = np.int32 if fits else np.int64
    matrix = csr_array(
        (values, column_of.astype(index_type), starts.astype(index_type)), shape=(rows, columns)
    )
    matrix.sort_indices()
    return matrix


def reject_repeated_columns(matrix: csr_array[Any], where: str, key: str) -> None:
    """Raise an :class:`InputError` if a row lists the same column twice (columns are sorted)."""
    import numpy as np

    same_as_next = matrix.indices[1:] == matrix.indices[:-1]
    first_of_row = matrix.indptr[1:-1]
    same_as_next[first_of_row[(first_of_row > 0) & (first_of_row < matrix.nnz)] - 1] = False
    if same_as_next.any():
        entry = int(np.argmax(same_as_next))
        row = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
        raise InputError(
            f"{where}: '{key}' lists column {int(matrix.indices[entry])} twice in row {row}; "
            "add the two values up before saving"
        )


def real_values(values: NDArray[Any], where: str) -> NDArray[Any]:
    """Numbers as float32, or float64 where the file has float64; all of them finite."""
    import numpy as np

    if values.dtype.kind not in "biuf" or values.dtype.itemsize > 8:
        raise InputError(
            f"{where} has dtype {values.dtype}; save it as float32, float64 or integers"
        )
    wide = values.dtype.kind == "f" and values.dtype.itemsize == 8
    real = np.ascontiguousarray(values, dtype=np.float64 if wide else np.float32)
    if not np.isfinite(real).all():
        raise InputError(f"{where} holds NaN or infinite values; replace them with finite numbers")
    return real


def _two_sizes(shape: NDArray[Any], where: str) -> tuple[int, int]:
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 0).any():
        raise InputError(f"{where} must be two integers, rows and columns, not negative")
    return int(shape[0]), int(shape[1])


def _integers(array: NDArray[Any], where: str) -> NDArray[Any]:
    import numpy as np

    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(
            f"{where} is {array.dtype} with {array.ndim} dimensions; it must be a "
            "one-dimensional integer array"
        )
    return array.astype(np.int64)


def _check_row_starts(starts: NDArray[Any], rows: int, count: int, where: str) -> None:
    import numpy as np

    if len(starts) != rows + 1:
        raise InputError(f"{where} has {len(starts)} entries; {rows} rows need {rows + 1}")
    if starts[0] != 0 or starts[-1] != count or (np.diff(starts) < 0).any():
        raise InputError(
            f"{where} does not rise from 0 to {count}, the number of values; "
            "save the matrix again from a valid CSR matrix"
        )
