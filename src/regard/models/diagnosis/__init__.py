"""Somebody's Transformer: which parameter plays which role, whether it is right, and if not, which mistake it is.

Two halves that share plain data only. The *recorder* (torch; it runs the other person's code) writes down what every
operation read and gave. The *judge* (NumPy, float64) finds the roles in that record, computes each part with a
reference whose switches are the known mistakes, and reports the smallest set of switches that gives the same numbers.

    recording.py       the plain data between the two: events, values, outputs, gradients
    tracer.py recorder.py construction.py     the recorder
    dataflow.py roles.py                      which tensor is W_Q of which head, W_1, a norm's gain, ...
    reference.py mistakes.py search.py        the reference, its switches, the staged search
    findings.py diagnosis.py                  what matching cannot see; the result
    part_recorder.py parts.py                 single parts: attention, a norm, a table of positions, a loss
"""
