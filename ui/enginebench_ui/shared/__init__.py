"""What two pages need: how values read, what every chart wears, what is read and kept. No page stands here."""
