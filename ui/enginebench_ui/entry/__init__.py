"""What Streamlit starts with, apart from `pages/`.

Streamlit takes a folder named `pages` beside its entry file for a site of its own making, and then runs a page that is
opened by its address without the entry file: no wide layout, no menu of ours.
"""
