"""What can be ordered: the choices of a form, what they come to, and how long that will take."""
