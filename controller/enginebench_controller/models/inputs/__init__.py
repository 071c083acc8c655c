"""What a model is fed with: shapes, values, and folders of arrays and images of a user, read without trusting them."""
