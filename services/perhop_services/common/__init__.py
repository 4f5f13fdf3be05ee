"""Parts of all services: users, tokens, a database with one writer, webhooks, HTTP, threads, logs.

Nothing here knows what a service is about. A service gives its tables (`database.Schema`), its
routes and its figures; `http.application` and `http.server` make a web service of them.
"""
