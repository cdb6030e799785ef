"""Catalogue entries of data that another package ships."""

from __future__ import annotations

from ncgnn.data.catalog import DatasetEntry

ENTRIES = (
    DatasetEntry(
        name="digits",
        title="Digits, nearest neighbours",
        parser=None,
        files=(),
        homepage="https://doi.org/10.24432/C50P49",
        citation=(
            "E. Alpaydin, C. Kaynak: Optical Recognition of Handwritten Digits, UCI Machine "
            "Learning Repository, 1998"
        ),
        licence="CC BY 4.0",
        nodes=1797,
        edges=9929,
        features=64,
        classes=10,
        content_sha256="d1507951c9ab40e422387c3ba360cfaea44a955bb886c50993c8540b785be0ee",
        note=(
            "Ships with scikit-learn, so nothing is downloaded. Images of the test set; each is "
            "tied to its 8 nearest by Euclidean distance of the pixels, symmetrised."
        ),
    ),
)
