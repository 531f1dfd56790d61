"""A table's pool, for steps that only learn at run time which table they work on.

An op whose table is known beforehand just names its `pool`. Maintenance and the staying run go from table
to table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import dagster as dg
from dagster._core.execution.plan.instance_concurrency_context import InstanceConcurrencyContext

from tableflow_assets.base.retry import poll_until

LOOK_EVERY_SECONDS = 0.2


@contextmanager
def in_pool(
    context: dg.OpExecutionContext, pool: str, priority: int = 0, within: float | None = None
) -> Iterator[bool]:
    """Wait for the pool as Dagster's own steps do, and hold a slot while inside; yields whether it does.

    ``priority``: among the waiting steps; a run of a table has 0. ``within``: it is waited for no longer
    than so many seconds; None: as long as it takes.
    """
    step = f"{context.get_step_execution_context().step.key}[{pool}]"
    with InstanceConcurrencyContext(context.instance, context.run) as pools:

        def claim() -> bool:
            return pools.claim(pool, step, priority)

        is_held = claim()
        if not is_held and within != 0:
            context.log.info(f"waiting for the runs in the pool {pool}")
            is_held = poll_until(bool, claim, every=LOOK_EVERY_SECONDS, within=within)
        try:
            yield is_held
        finally:
            if is_held:
                pools.free_step(step)


def in_pool_if_free(context: dg.OpExecutionContext, pool: str) -> AbstractContextManager[bool]:
    """Hold a slot while inside, if there is one at this moment; yields whether there was."""
    return in_pool(context, pool, within=0)
