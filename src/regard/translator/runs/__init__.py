"""A run as it is written down: settings, files, records. No torch here, so a page of runs opens at once."""
