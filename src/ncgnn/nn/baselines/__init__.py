"""Models to compare with, one per file."""
