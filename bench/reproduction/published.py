"""The paper's own figures (Dudik et al. 2012), to stand beside ours."""

from __future__ import annotations

__all__ = ["ACCEPTED_1", "TABLE_1", "TABLE_2", "TABLE_3"]

TABLE_1 = {
    "DM": 0.0151,
    "RS": 0.0191,
    "WC": 0.0055,
    "DRns(q=0)": 0.0093,
    "DRns(q=0.01)": 0.0057,
    "DRns(q=0.05)": 0.0055,
    "DRns(q=0.1)": 0.0058,
}
ACCEPTED_1 = {"RS": 264, "DRns(q=0)": 523, "DRns(q=0.01)": 3375, "DRns(q=0.05)": 4279, "DRns(q=0.1)": 4375}
TABLE_2 = {
    "DM": 0.0329,
    "RS": 0.0179,
    "WC": 0.0156,
    "DRns(q=0)": 0.0129,
    "DRns(q=0.01)": 0.0089,
    "DRns(q=0.05)": 0.0123,
    "DRns(q=0.1)": 0.0946,
}
# normalised mean and standard deviation: self-evaluation, argmax
TABLE_3 = {
    "RS": ("0.986 ± 0.060", "0.990 ± 0.048"),
    "IPS": ("0.995 ± 0.041", "1.000 ± 0.027"),
    "DM": ("1.213 ± 0.010", "1.211 ± 0.002"),
    "DR": ("0.967 ± 0.042", "0.991 ± 0.026"),
    "DRns(q=0.1)": ("0.974 ± 0.039", "0.993 ± 0.024"),
}
