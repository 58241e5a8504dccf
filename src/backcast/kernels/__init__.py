"""What the compiled parts share: the decorator, context views, and the dispatch to a policy's kernels."""
