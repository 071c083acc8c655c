"""What is stored, leaving whole or for another program, and coming back. How it is shown to people is one room up."""
