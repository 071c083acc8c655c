"""Records → table rows and figures. Pure functions: no Streamlit, no store, no clock."""
