"""The first tables."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies = ()
    operations = (
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("email", models.EmailField(max_length=254)),
                ("total", models.DecimalField(decimal_places=2, max_digits=8)),
                (
                    "status",
                    models.CharField(
                        choices=[("placed", "Placed"), ("paid", "Paid"), ("expired", "Expired")],
                        default="placed",
                        max_length=10,
                    ),
                ),
                ("receipt_sent_at", models.DateTimeField(blank=True, null=True)),
            ],
        ),
    )
