"""The lines that a sample covers: where it begins, where it ends, which iterations have one.

In: a chosen loop; out: regions with their ends, conditions and syncs.
"""
