"""A trained model in somebody else's engine: written down for it, and translated with."""
