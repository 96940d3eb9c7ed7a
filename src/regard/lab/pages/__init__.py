"""One file per page; each defines a ``PAGE``."""
