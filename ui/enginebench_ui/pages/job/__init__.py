"""One job: how far it is, cell by cell. How jobs read is in `shared.jobs`."""
