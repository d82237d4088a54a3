"""All mutants, from the table of each room."""

from __future__ import annotations

from mutants import (
    broker_views,
    brokers,
    delivery,
    first_steps,
    fleet,
    fleet_moves,
    forwards,
    health,
    limits,
    messages,
    people,
    primitives,
    robustness,
    roles,
    schedule_runs,
    schedules,
)
from mutants.mutant import Mutant

MUTANTS: list[Mutant] = [
    *delivery.MUTANTS,
    *limits.MUTANTS,
    *messages.MUTANTS,
    *schedules.MUTANTS,
    *schedule_runs.MUTANTS,
    *primitives.MUTANTS,
    *robustness.MUTANTS,
    *people.MUTANTS,
    *health.MUTANTS,
    *roles.MUTANTS,
    *first_steps.MUTANTS,
    *fleet.MUTANTS,
    *fleet_moves.MUTANTS,
    *forwards.MUTANTS,
    *brokers.MUTANTS,
    *broker_views.MUTANTS,
]
