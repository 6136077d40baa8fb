"""What an expression is to a training step: model, optimizer, backward, sync, evaluation.

In: names resolved by `read`; out: kinds of objects, and what calls of them do.
"""
