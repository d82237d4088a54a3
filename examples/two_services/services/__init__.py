"""Two services with RabbitMQ between them."""
