"""One benchmark shaped for charts and tables: its lines, its cells, its figures. No Streamlit, no store, no clock."""
