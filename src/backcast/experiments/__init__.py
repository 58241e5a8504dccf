"""The founding paper's experiments, from data to tables; run by ``backcast reproduce``."""
