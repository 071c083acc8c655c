"""One performance profile, measured or only counted. The list of profiles is `pages.profiles`."""
