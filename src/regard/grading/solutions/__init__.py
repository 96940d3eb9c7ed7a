"""Our own answers, right and wrong: ``regard assignment check`` grades them before the students do. Not in
students' wheels."""
