"""Tools of the repository: a browser for tests, and the pictures of the manual."""
