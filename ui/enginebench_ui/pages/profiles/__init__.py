"""The list of performance profiles. One of them is `pages.profile`."""
