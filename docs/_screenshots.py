"""Take the pictures of docs/grading.md anew: ``python docs/_screenshots.py``; it needs Chromium."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PICTURES = Path(__file__).parent / "pictures"
SHOTS = {  # page of the graded example: picture, and the window's size
    "class.html": ("grading-class.png", "1180,1040"),
    "students/ben.html": ("grading-student.png", "1000,900"),
    "marking.html": ("grading-marking.png", "1000,560"),
}


def main() -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("There is no Chromium here; the pictures stay as they are.")
    with tempfile.TemporaryDirectory() as folder:
        week = Path(folder) / "week"
        regard = [sys.executable, "-m", "regard"]
        subprocess.run([*regard, "assignment", "example", str(week)], check=True)
        (week / "secret.txt").write_text("the secret of the pictures")  # a fixed one: the same picture each time
        words = ["--assignment", week / "hw.toml", "--students", week / "students.csv", "--secret", week / "secret.txt"]
        subprocess.run([*regard, "grade", week / "submissions", *words, "--out", week / "grades"], check=True)
        for page, (picture, size) in SHOTS.items():
            options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", f"--window-size={size}"]
            options += [
                f"--user-data-dir={folder}/{picture}",
                f"--screenshot={PICTURES / picture}",
                "--hide-scrollbars",
            ]
            address = (week / "grades" / page).as_uri()
            subprocess.run([browser, *options, address], check=True, capture_output=True)


if __name__ == "__main__":
    main()
