"""`plugin check`: an engine of somebody else held to the contract, a model and a profile."""
