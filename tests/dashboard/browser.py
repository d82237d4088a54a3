"""A browser in few words: it logs in, keeps cookies, and says where its pages are from."""

from typing import Any

import httpx2

from tests.dashboard.scene import BASE, CSRF, client_of


class Browser:
    """One browser with one login, on pages of the dashboard itself."""

    def __init__(self, dashboard: Any, base: str = BASE) -> None:
        self.client = client_of(dashboard, {"Origin": base, "Sec-Fetch-Site": "same-origin"}, base)
        self.csrf = ""

    async def log_in(self, token: str) -> httpx2.Response:
        """Log in, and ask for what changes must carry."""
        answer = await self.client.post("/api/login", json={"token": token})
        self.csrf = (await self.client.get("/api/session")).json()["csrf"] or ""
        return answer

    async def post(self, path: str, body: Any = None, **headers: str | None) -> httpx2.Response:
        """Change something; a header given as None is left out."""
        sent: dict[str, str] = {
            CSRF: self.csrf,
            **{name: value for name, value in headers.items() if value is not None},
        }
        request = self.client.build_request("POST", path, json={} if body is None else body, headers=sent)
        for name, value in headers.items():
            if value is None and name in request.headers:
                del request.headers[name]
        return await self.client.send(request)
