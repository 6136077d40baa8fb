"""tt-lang kernels: found, reduced to one invocation, run under tt-lang's own profilers.

In: a script with tt-lang kernels; out: one measured invocation, and what to change next.

``find`` reads a script, ``plan`` chooses one invocation and says which edits leave only that one,
``run`` executes the rewritten copy, on a ``device`` under tt-lang's profilers or on its simulator
(``simulate``), ``iterate`` repeats it after each of the user's changes. What was printed or counted
is read and judged by ``instrumentor_analysis.kernels``.
"""
