"""Services built on perhop: a package for each, and `common` for what they share."""
