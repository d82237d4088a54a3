"""A Django project on the database that its environment names."""

import json
import os

SECRET_KEY = "for tests"
USE_TZ = True
INSTALLED_APPS = ["parcels"]
DATABASES = {"default": json.loads(os.environ["DATABASE"])}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
