"""Work queues: deliveries claimed and settled by the caller's own code, without a worker."""
