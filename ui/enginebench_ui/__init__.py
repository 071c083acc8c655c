"""The pages: what the store holds, for people to look at.

`pages/` calls Streamlit and nothing else; `views/` turns rows into chart data and knows no Streamlit.
"""
