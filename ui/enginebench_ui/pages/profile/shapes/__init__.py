"""One profile shaped for charts and tables: its layers, types, roofline, summary, prospects. No Streamlit, no store."""
