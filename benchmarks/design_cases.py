"""How many small designs are refused, and how many answers are false: ``python -m benchmarks.design_cases [COUNT]``.

The cases and the judge are the tests' own (design_cases.py and design_oracle.py there): random keys of twelve
families, nasty ones included, and all four verbs. Writes docs/results/design-cases.txt.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "packages" / "regard" / "tests"))

from design_cases import case  # noqa: E402
from design_oracle import judged  # noqa: E402
from regard.errors import CouldNotFindOut  # noqa: E402

COUNT = 2400


def main(count: int = COUNT) -> str:
    answers: Counter[tuple[str, str]] = Counter()
    lost: list[str] = []
    false: list[str] = []
    exact, slowest, begun = 0, 0.0, time.process_time()
    for seed in range(count):
        question, start = case(seed), time.process_time()
        try:
            answer = question.ask()
        except CouldNotFindOut:
            lost.append(f"{seed} ({question.family}, {question.verb})")
            continue
        slowest = max(slowest, time.process_time() - start)
        answers[question.verb, answer.certificate.claim.value] += 1
        exact += isinstance(answer.certificate.query, tuple) or (
            answer.certificate.combination is not None and answer.certificate.combination.basis is None
        )
        if judged(question, answer):
            false.append(f"{seed} ({question.family}, {question.verb})")
    lines = [
        f"{count} random small designs (seeds 0 to {count - 1} of packages/regard/tests/design_cases.py)",
        *(f"  {verb:8s} {claim:12s} {number:5d}" for (verb, claim), number in sorted(answers.items())),
        f"refused: {len(lost)}" + (f": {', '.join(lost)}" if lost else ""),
        f"false:   {len(false)}" + (f": {', '.join(false)}" if false else ""),
        f"answered in rationals, where float64 was not enough: {exact}",
        f"CPU seconds: {time.process_time() - begun:.0f} with the judging; the slowest answer {slowest:.2f}",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    report = main(int(sys.argv[1]) if len(sys.argv) > 1 else COUNT)
    print(report, end="")
    (HERE.parent / "docs" / "results" / "design-cases.txt").write_text(report, encoding="utf-8")
