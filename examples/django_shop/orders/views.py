"""The shop's three JSON endpoints."""

from decimal import Decimal, InvalidOperation

from django.core.exceptions import ValidationError
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from orders.models import Order
from orders.placing import pay_order, place_order


@csrf_exempt
@require_POST
def place(request: HttpRequest) -> JsonResponse:
    """Handle POST /orders/ with email and total."""
    try:
        order = place_order(request.POST.get("email", ""), Decimal(request.POST.get("total", "")))
    except (ValidationError, InvalidOperation):
        return JsonResponse({"error": "email and total are required"}, status=400)
    return JsonResponse(_shown(order), status=201)


def show(_: HttpRequest, pk: int) -> JsonResponse:
    """Handle GET /orders/1/."""
    return JsonResponse(_shown(get_object_or_404(Order, pk=pk)))


@csrf_exempt
@require_POST
def pay(_: HttpRequest, pk: int) -> JsonResponse:
    """Handle POST /orders/1/pay/."""
    order = get_object_or_404(Order, pk=pk)
    pay_order(order)
    return JsonResponse(_shown(order))


def _shown(order: Order) -> dict[str, object]:
    return {"id": order.pk, "status": order.status, "receipt": order.receipt_sent_at is not None}
