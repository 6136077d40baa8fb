"""tt-lang kernels: found, reduced to one invocation, run under tt-lang's own profilers.

``find`` reads a script, ``plan`` chooses one invocation and says which edits leave only that one,
``run`` executes the rewritten copy, ``iterate`` repeats it after each of the user's changes. What
was printed is read and judged by ``instrumentor_analysis.kernels``.
"""
