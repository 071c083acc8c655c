"""Ordering a benchmark. What both forms share is `shared.order_form` and, without Streamlit, `shared.order_fields`."""
