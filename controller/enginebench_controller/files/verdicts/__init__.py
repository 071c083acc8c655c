"""Answers as files: of comparisons, gates, bisects and recommendations, as Markdown, HTML, JUnit and documents."""
