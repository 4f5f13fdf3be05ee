"""Messages that every service has: problems, users, tokens, webhooks."""
