"""Services built on perhop: each is a package of its own, and `common` is what they share."""
