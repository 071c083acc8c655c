"""From what a person asks for to jobs: plans, what they multiply out to, and the models they need."""
