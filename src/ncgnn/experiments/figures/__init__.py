"""Numbers of the paper's figures from finished runs, one file per figure."""
