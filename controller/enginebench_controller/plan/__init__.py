"""From what a person asks for to configurations: plans, what they multiply out to, and the models they need."""
