"""The experiments of Dudik et al. 2012: ``python -m bench.reproduction`` (``make reproduce``)."""
