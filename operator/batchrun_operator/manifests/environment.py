"""Environment of runner containers: the only place where a run's secrets go."""

from batchrun_api import names
from batchrun_api.spec.base import LocalObjectRef, SecretKeyRef
from batchrun_operator.manifests.meta import Manifest, Subject
from batchrun_operator.manifests.volumes import TMP_DIR

_AWS_REQUIRED = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_AWS_OPTIONAL = ("AWS_SESSION_TOKEN",)


def runner_environment(subject: Subject, *, model_key: bool) -> list[Manifest]:
    """Variables of a runner container; `model_key`: whether this step talks to the model."""
    spec = subject.spec
    entries: list[Manifest] = [{"name": names.ENV_IN_POD, "value": "1"}, {"name": "HOME", "value": TMP_DIR}]
    if model_key and spec.model.api_key_secret_ref is not None:
        entries.append(_from_secret(names.ENV_API_KEY, spec.model.api_key_secret_ref))
    if model_key:
        refs = spec.tools.key_refs()
        entries += [_from_secret(names.tool_key_variable(purpose), ref) for purpose, ref in refs.items()]
    entries += _ephemeral_prompt(subject)
    if spec.output is not None:
        entries += _aws_credentials("", spec.output.s3.credentials_secret_ref)
    entries += _aws_credentials(names.ENV_DATASET_PREFIX, spec.dataset.s3.credentials_secret_ref)
    return entries


def _ephemeral_prompt(subject: Subject) -> list[Manifest]:
    agent = subject.spec.agent
    if agent.ephemeral_system_prompt is not None:
        # Kubernetes expands $(NAME) in values; doubled dollars come out as they were.
        text = agent.ephemeral_system_prompt.replace("$", "$$")
        return [{"name": names.ENV_EPHEMERAL_SYSTEM_PROMPT, "value": text}]
    if agent.ephemeral_system_prompt_from is not None:
        return [_from_secret(names.ENV_EPHEMERAL_SYSTEM_PROMPT, agent.ephemeral_system_prompt_from.secret_key_ref)]
    return []


def _aws_credentials(prefix: str, secret: LocalObjectRef | None) -> list[Manifest]:
    if secret is None:
        return []
    return [
        _from_secret(prefix + key, SecretKeyRef(name=secret.name, key=key), optional=key in _AWS_OPTIONAL)
        for key in (*_AWS_REQUIRED, *_AWS_OPTIONAL)
    ]


def _from_secret(variable: str, reference: SecretKeyRef, *, optional: bool = False) -> Manifest:
    source: Manifest = {"name": reference.name, "key": reference.key}
    if optional:
        source["optional"] = True
    return {"name": variable, "valueFrom": {"secretKeyRef": source}}
