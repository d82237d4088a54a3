"""Sending mail."""


class PostOffice:
    """Prints mail instead of sending it."""

    async def send(self, to: str, text: str) -> None:
        print(f"to {to}: {text}", flush=True)
