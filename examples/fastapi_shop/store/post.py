"""Sending letters."""


class PostOffice:
    """Prints what a real one would send."""

    async def send(self, to: str, text: str) -> None:
        print(f"to {to}: {text}", flush=True)
