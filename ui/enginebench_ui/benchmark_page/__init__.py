"""The parts of the page of one benchmark, a module each: Streamlit calls, and no arithmetic."""
