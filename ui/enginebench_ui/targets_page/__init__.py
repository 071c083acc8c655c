"""What the page of targets is made of: Streamlit calls only; what they show is shaped in `views/`."""
