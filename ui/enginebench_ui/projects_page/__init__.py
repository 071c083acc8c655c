"""What the page of projects is made of: Streamlit calls only; what they show is shaped in `views/`."""
