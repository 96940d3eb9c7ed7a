"""What a teacher and the students see: pages, tables, a form for marks by hand, packs for course systems.

It may import every other room of grading. Begin with ``pages.py``.
"""
