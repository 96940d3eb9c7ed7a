"""One file a page; each defines a ``PAGE``."""
