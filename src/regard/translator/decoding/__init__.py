"""From scores to sentences: the best token, a beam, or CTC's paths."""
