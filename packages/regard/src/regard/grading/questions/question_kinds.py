"""The question behind a task: a claim's, the teacher's own, statements, or a translator's next word."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from regard.coursework.question import Question
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.grading.questions.assignment import Task


def question_for(task: Task) -> Question:
    """What the runner asks, under the name that the student's function has, and the judge."""
    return replace(_question_by_kind(task), function=task.function)


def _question_by_kind(task: Task) -> Question:
    from regard.grading.questions.assignment import Kind

    if task.kind is Kind.CLAIM:
        from regard.coursework.catalogue import claims

        question = claims[task.claim].question
        if question is None:
            raise InputError(f"{task.claim} asks for words, not for something to construct; use kind = 'written'.")
        return question
    if task.kind is Kind.OWN and task.file is not None:
        from regard.grading.questions.own_question import question_of

        return question_of(task.file)
    if task.kind is Kind.PERPLEXITY and task.file is not None:
        from regard.grading.questions.perplexity import question_of as next_word

        return next_word(task.file, weights=bool(task.weights))
    if task.kind is Kind.STATEMENTS:
        from regard.grading.questions.statements import statements_question

        return statements_question(task.count)
    raise InputError(f"Question {task.id!r} of kind {task.kind.value} is not answered by a function.")
