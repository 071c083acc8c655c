"""The notebooks' ladders: one model made faster step by step, every step a measurement like any other.

Here: which rungs there are, which of them a target has, what each gained, and the chart. Measuring is not done here.
"""
