"""Models to compare with: one module per paper or family."""
