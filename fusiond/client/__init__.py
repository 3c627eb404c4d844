"""
What producers use: Client for threads, AsyncClient for asyncio.

    jobs = Client("redis://localhost")
    job = jobs.enqueue("send_otp", "+4912345", code="1234")
    job = jobs.options(delay="5m", priority="high", key="otp-77").enqueue("send_otp", "+49…", code="9")
    job.result(timeout=10)

Both run the plans of producer/plans.py. A call whose connection was lost is repeated once, with the same id.
"""

from fusiond.client.asynchronous import AsyncClient, AsyncJob
from fusiond.client.blocking import Client, Job
from fusiond.client.flow_handles import AsyncFlowRun, FlowRun

__all__ = ["AsyncClient", "AsyncFlowRun", "AsyncJob", "Client", "FlowRun", "Job"]
