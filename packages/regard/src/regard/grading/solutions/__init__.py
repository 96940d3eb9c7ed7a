"""Our own answers, right and wrong: ``regard assignment check`` grades them before the students do.

They are read as a student's file is, so they import nothing of regard, and they are not in students' wheels. Begin with
``right.py``; ``wrong.toml`` says what students get wrong in it.
"""
