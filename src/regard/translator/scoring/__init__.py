"""How good a translator is, and whether a difference would survive other sentences or seeds."""
