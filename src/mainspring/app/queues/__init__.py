"""Work queues: groups whose deliveries are claimed and settled by code of the user's own, without a worker."""
