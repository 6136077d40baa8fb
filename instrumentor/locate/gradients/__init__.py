"""Which statements compute what a backward differentiates.

In: statements on the way to a backward; out: the first forward, and what each variable was made of.
"""
