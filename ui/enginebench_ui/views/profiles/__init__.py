"""Performance profiles: shaped from records for the list of profiles and the page of one."""
