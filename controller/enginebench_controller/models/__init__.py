"""Model versions: their formats and inputs, the library that keeps them, and how one is made of another."""
