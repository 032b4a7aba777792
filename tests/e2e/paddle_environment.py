"""The environment that a PaddleJob's pods get: what docs/paddlejob-environment.md says, written by
hand. `environment` is the one place to change when the operator's own words are to be tried."""

from __future__ import annotations

import dataclasses

_ROLES = {"ps": "PSERVER", "worker": "TRAINER"}
_GLOO_OFFSET = 18  # from the first server's port, within the ports that every pod has


@dataclasses.dataclass(frozen=True)
class Elastic:
    etcd: str  # host:port
    minimum: int
    maximum: int
    timeout: int = 60


@dataclasses.dataclass(frozen=True)
class Job:
    name: str
    workers: int
    servers: int = 0
    intranet: str = "PodIP"  # or Service, or Host
    gloo: int | None = None
    elastic: Elastic | None = None
    port: int = 2379  # in Host mode the first of the job's own block
    namespace: str = "default"

    def pods(self) -> list[Pod]:
        return [Pod("ps", index) for index in range(self.servers)] + [
            Pod("worker", index) for index in range(self.workers)
        ]


@dataclasses.dataclass(frozen=True)
class Pod:
    role: str  # ps or worker
    index: int

    def name(self, job: Job) -> str:
        return f"{job.name}-{self.role}-{self.index}"

    def ip(self) -> str:
        """A loopback address, different for each pod of a job."""
        return f"127.0.0.{(2 if self.role == 'ps' else 20) + self.index}"

    def host(self, job: Job) -> str:
        return self.name(job) if job.intranet == "Service" else self.ip()


def environment(job: Job, pod: Pod) -> dict[str, str]:
    """All that the operator adds to the container of `pod`."""
    own = {
        "POD_IP": pod.host(job),
        "PADDLE_TRAINER_ID": str(pod.index),
        "TRAINING_ROLE": _ROLES[pod.role],
        "PADDLE_TRAINING_ROLE": _ROLES[pod.role],
    }
    if job.elastic is not None:
        return own | _elastic(job, job.elastic)
    own |= _shared(job)
    if job.servers == 0:
        own |= _collective(job, pod)
    return own


def _shared(job: Job) -> dict[str, str]:
    """What is in the job's ConfigMap: the same for every pod."""
    workers = [each.host(job) for each in job.pods() if each.role == "worker"]
    servers = [each.host(job) for each in job.pods() if each.role == "ps"]
    shared = {
        "TRAINER_PORTS_NUM": "20",
        "PADDLE_PORT": str(job.port),
        "PADDLE_TRAINERS": ",".join(workers),
        "PADDLE_TRAINERS_NUM": str(len(workers)),
        "PADDLE_TRAINER_ENDPOINTS": _endpoints(workers, job.port),
    }
    if servers:
        shared["PADDLE_PSERVERS_IP_PORT_LIST"] = _endpoints(servers, job.port)
    if servers and job.gloo:
        shared["PADDLE_WITH_GLOO"] = str(job.gloo)
        shared["PADDLE_GLOO_RENDEZVOUS"] = "3"
        shared["PADDLE_GLOO_HTTP_ENDPOINT"] = f"{servers[0]}:{job.port + _GLOO_OFFSET}"
    return shared


def _collective(job: Job, pod: Pod) -> dict[str, str]:
    """What the Paddle of today wants besides. Without an accelerator the backend is gloo."""
    hosts = [each.host(job) for each in job.pods()]
    if pod.index == 0:
        # The launcher starts the job's master where its address is that of the machine, and a
        # name never is: the first worker goes by its address even in Service mode.
        hosts[0] = pod.ip()
    return {
        "PADDLE_TRAINER_ENDPOINTS": _endpoints(hosts, job.port),
        "PADDLE_CURRENT_ENDPOINT": f"{hosts[pod.index]}:{job.port}",
        "PADDLE_MASTER": f"{hosts[0]}:{job.port}",
        "PADDLE_NNODES": str(job.workers),
        "PADDLE_RANK": str(pod.index),
        "PADDLE_JOB_ID": f"{job.namespace}-{job.name}",
        "PADDLE_DISTRI_BACKEND": "gloo",
    }


def _elastic(job: Job, elastic: Elastic) -> dict[str, str]:
    """For the launcher of today, then for the old one. Neither may see a list of endpoints or a
    rank: who takes part changes."""
    return {
        "PADDLE_MASTER": f"etcd://{elastic.etcd}",
        "PADDLE_NNODES": f"{elastic.minimum}:{elastic.maximum}",
        "PADDLE_JOB_ID": f"{job.namespace}-{job.name}",
        "PADDLE_ELASTIC_LEVEL": "1",
        "PADDLE_ELASTIC_TIMEOUT": str(elastic.timeout),
        "PADDLE_ELASTIC_SERVER": elastic.etcd,
        "PADDLE_ELASTIC_JOB_ID": f"{job.namespace}-{job.name}",
        "PADDLE_ELASTIC_NP": str(job.workers),
    }


def _endpoints(hosts: list[str], port: int) -> str:
    return ",".join(f"{host}:{port}" for host in hosts)
