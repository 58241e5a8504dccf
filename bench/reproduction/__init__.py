"""The experiments of the founding paper: ``python -m bench.reproduction`` (``make reproduce``)."""
