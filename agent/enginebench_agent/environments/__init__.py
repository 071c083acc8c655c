"""Making and removing the Python environments engines live in. Serving them is not done here."""
