"""The parts of the page that compares two projects: Streamlit calls, a module a part.

What they show is shaped in views/compare_….py; what they read is in reading.py, and what a link keeps in address.py.
"""
