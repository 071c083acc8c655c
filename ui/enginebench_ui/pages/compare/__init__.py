"""Two projects against each other. What a comparison finds is the controller's; here it is chosen, shaped and drawn."""
