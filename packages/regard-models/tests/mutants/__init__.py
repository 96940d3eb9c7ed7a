"""Models with one bug each."""
