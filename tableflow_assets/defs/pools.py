"""A table's pool, for steps that only learn at run time which table they work on.

An op whose table is known beforehand just names its `pool`. The maintenance steps are shared by all
tables: a run has one set of them per topic.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg
from dagster._core.execution.plan.instance_concurrency_context import InstanceConcurrencyContext

from tableflow_assets.base.retry import poll_until

LOOK_EVERY_SECONDS = 0.2


@contextmanager
def in_pool(context: dg.OpExecutionContext, pool: str, priority: int = 0) -> Iterator[None]:
    """Wait for the pool as Dagster's own steps do, and hold a slot while inside.

    ``priority``: among the waiting steps; a run of a table has 0.
    """
    step = context.get_step_execution_context().step.key
    with InstanceConcurrencyContext(context.instance, context.run) as pools:
        if not pools.claim(pool, step, priority):
            context.log.info(f"waiting for the runs in the pool {pool}")
            poll_until(bool, lambda: pools.claim(pool, step, priority), every=LOOK_EVERY_SECONDS)
        try:
            yield
        finally:
            pools.free_step(step)


@contextmanager
def in_pool_if_free(context: dg.OpExecutionContext, pool: str) -> Iterator[bool]:
    """Hold a slot while inside, if there is one at this moment; yields whether there was."""
    step = f"{context.get_step_execution_context().step.key}[{pool}]"
    with InstanceConcurrencyContext(context.instance, context.run) as pools:
        is_free = pools.claim(pool, step)
        try:
            yield is_free
        finally:
            if is_free:
                pools.free_step(step)
