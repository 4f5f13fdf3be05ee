"""A scheduler and workers in pods of Kubernetes, by Dask's operator."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from perhop.cluster.coroutines import result_of
from perhop.cluster.ssh import IDLE_S
from perhop.errors import ClusterError

__all__ = ["start"]


def start(number: int, operator: Any) -> Any:
    """Start a scheduler and some workers.

    Args:
        number: The number of workers.
        operator: The module `dask_kubernetes.operator`, which perhop does not need otherwise.

    Raises:
        ClusterError: No cluster of Kubernetes answers, or it does not have Dask's operator.
    """
    # Before, because what a `KubeCluster` failed to create it deletes at exit, with a traceback.
    result_of(_ask())
    configured = import_module("dask.config").get("kubernetes.idle-timeout", 0)
    # Pods would stay without a limit when this command is killed.
    return operator.KubeCluster(n_workers=number, idle_timeout=configured or IDLE_S, quiet=True)


async def _ask() -> None:
    """Ask Kubernetes for the resources of Dask's operator."""
    try:
        api = await import_module("kr8s.asyncio").api()
        async with api.call_api("GET", base="/apis/kubernetes.dask.org", version="v1", url=""):
            pass
    except Exception as error:  # each part of kr8s has errors of its own
        response = getattr(error, "response", None)
        if response is not None and response.status_code == 404:
            raise ClusterError(
                "Kubernetes does not have Dask's operator; install it: https://kubernetes.dask.org"
            ) from error
        reason = str(error) or type(error).__name__
        raise ClusterError(
            f"Kubernetes does not answer: {reason}; check with `kubectl get pods`"
        ) from error
