"""The paper's figures, one module each: runs, numbers, drawing."""
