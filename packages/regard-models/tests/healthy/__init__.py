"""Models that an audit must not accuse."""
