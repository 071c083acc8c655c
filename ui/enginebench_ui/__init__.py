"""The pages: what the store holds, for people to look at. A folder a page; what two pages need is in `shared`."""
