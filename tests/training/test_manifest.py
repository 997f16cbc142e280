"""The manifest for Kubernetes in docs/clusters.md, as far as it can be held without a cluster: fields that a PyTorchJob
of the training operator has (kubeflow.org/v1), and parts that fit each other.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

PAGE = Path(__file__).parents[2] / "docs" / "clusters.md"
ELASTIC = {"minReplicas", "maxReplicas", "rdzvBackend", "rdzvPort", "rdzvHost", "rdzvId", "rdzvConf", "standalone",
           "maxRestarts", "metrics"}  # fmt: skip
FIELDS = {
    "": {"apiVersion", "kind", "metadata", "spec"},
    "spec": {"runPolicy", "elasticPolicy", "pytorchReplicaSpecs", "nprocPerNode"},
    "spec.elasticPolicy": ELASTIC,
    "spec.pytorchReplicaSpecs": {"Master", "Worker"},
    "spec.pytorchReplicaSpecs.Worker": {"replicas", "restartPolicy", "template"},
    "spec.pytorchReplicaSpecs.Worker.template": {"metadata", "spec"},
}
"""What may stand at each place."""


@pytest.fixture
def job() -> dict[str, Any]:
    (text,) = re.findall(r"```\n(apiVersion:.*?)```", PAGE.read_text(), re.DOTALL)
    return dict(yaml.safe_load(text))


@pytest.mark.parametrize("place", FIELDS)
def test_fields_are_those_of_a_pytorch_job(place: str, job: dict[str, Any]) -> None:
    for name in filter(None, place.split(".")):
        job = job[name]
    assert job.keys() <= FIELDS[place]


def test_parts_fit_each_other(job: dict[str, Any]) -> None:
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v1", "PyTorchJob")
    spec, worker = job["spec"], job["spec"]["pytorchReplicaSpecs"]["Worker"]
    elastic, pod = spec["elasticPolicy"], worker["template"]["spec"]
    (container,) = pod["containers"]
    assert container["name"] == "pytorch"  # the one that the operator looks for
    assert isinstance(spec["nprocPerNode"], str)
    assert int(spec["nprocPerNode"]) == container["resources"]["limits"]["nvidia.com/gpu"]
    assert elastic["minReplicas"] <= worker["replicas"] <= elastic["maxReplicas"]
    assert elastic["rdzvBackend"] == "c10d"
    assert worker["restartPolicy"] in ("Always", "OnFailure", "Never", "ExitCode")
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert all(isinstance(word, str) for word in container["command"])
    mounts = tuple(mount["mountPath"] for mount in container["volumeMounts"])
    assert all(word.startswith(mounts) for word in container["command"] if word.startswith("/"))


def test_it_trains_what_the_script_for_slurm_trains(job: dict[str, Any]) -> None:
    """Both are started again: the same words, but for how often it saves."""
    (container,) = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    (script,) = re.findall(r"(?m)^srun glassformer ((?:.*\\\n)*.*)", PAGE.read_text())
    words = re.sub(r"--training.checkpoint_every \d+", "", script.replace("\\\n", " ")).split()
    assert container["command"] == ["torchrun", "-m", "glassformer", *words]
