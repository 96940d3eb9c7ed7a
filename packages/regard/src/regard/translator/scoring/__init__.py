"""How good a translator is, and whether a difference would survive other sentences or seeds.

It may import ``translator.models`` and the rooms before it. Begin with ``scores.py``;
``significance.py`` says what a difference is worth.
"""
