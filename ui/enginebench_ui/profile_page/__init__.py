"""The parts of the page of one profile: Streamlit calls over what `views/profiles` shapes."""
