"""Two projects against each other, shaped for charts and tables: no Streamlit, no store."""
