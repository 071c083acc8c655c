"""A user's own inputs: folders of arrays and images, read without trusting them."""
