"""Audit questions for :mod:`regard.grading`, which finds them by an entry point.

A student's model is audited beside its own code, in the jail; part of the audit is done again outside. It may import
``auditing``, ``inputs`` and regard's grading and sandbox. Begin with ``audit_answers.py``.
"""
