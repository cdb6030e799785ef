"""NC and NH as SQL: statements for five databases, and tables measured where they are."""

from ncgnn.metrics.sql.dialects import DIALECTS
from ncgnn.metrics.sql.engine import SqlAnalysis, confusion_by_sql
from ncgnn.metrics.sql.statements import WHATS, What, write_statement

__all__ = [
    "DIALECTS",
    "WHATS",
    "SqlAnalysis",
    "What",
    "confusion_by_sql",
    "write_statement",
]
