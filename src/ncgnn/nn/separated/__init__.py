"""separated."""
