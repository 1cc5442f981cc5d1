"""Queues between processes: a spool in a directory, or RabbitMQ. A published message is durable."""
