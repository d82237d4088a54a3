"""The shop's settings, kept minimal."""

from pathlib import Path

HERE = Path(__file__).parent.parent

SECRET_KEY = "only for this example"  # noqa: S105
DEBUG = True
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "testserver"]
ROOT_URLCONF = "shop.urls"
WSGI_APPLICATION = "shop.wsgi.application"
USE_TZ = True

INSTALLED_APPS = [
    "mainspring.integrations.django",
    "orders",
]

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": HERE / "shop.db",
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

MAINSPRING = {"NAME": "shop"}

EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"
