"""HTTP for services: who asks, what every request must keep to, health, and serving."""
