"""Numbers of the paper's tables from finished runs."""
