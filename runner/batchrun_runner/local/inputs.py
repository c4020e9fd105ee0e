"""From a BatchRun file and the environment to what the verbs need. Raises BadInput, which names place and fix."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from batchrun_api import names
from batchrun_api.conditions import Reason
from batchrun_api.spec import PrefillMessage
from batchrun_api.spec.base import ConfigMapKeyRef
from batchrun_api.spec.model import OPENROUTER_URL
from batchrun_api.spec.tools import WITH_KEY
from batchrun_runner import settings as run_settings
from batchrun_runner.dataset.sources import Source, file_source, source_of, text_source
from batchrun_runner.documents import RunFile
from batchrun_runner.settings import (
    OPENROUTER_KEY,
    PrefillInvalid,
    RunSettings,
    key_fault,
    key_variable,
    prefill_messages,
)

DEMO_MODEL = "demo/scripted"


class BadInput(Exception):
    """A user's mistake; the message names the place and the fix."""

    reason = Reason.INVALID_SPEC


class FolderInUse(BadInput):
    """Another process works in the output folder."""

    reason = Reason.OUTPUT_IN_USE


class FolderNotWritable(BadInput):
    """The output folder cannot be made or written."""

    reason = Reason.STORAGE_DENIED


def settings_of(file: Path, run_file: RunFile, environ: Mapping[str, str]) -> RunSettings:
    """The run's settings; secrets come from the environment, ConfigMaps from the same file."""
    run = run_file.run
    agent = run.spec.agent
    if agent.ephemeral_system_prompt_from and names.ENV_EPHEMERAL_SYSTEM_PROMPT not in environ:
        raise BadInput(
            f"{file}: spec.agent.ephemeralSystemPromptFrom: Secrets are not read on one machine; "
            f"put the text into the environment as {names.ENV_EPHEMERAL_SYSTEM_PROMPT}"
        )
    prefill: tuple[PrefillMessage, ...] = ()
    if agent.prefill_messages_from:
        text = _config_map_text(file, run_file, agent.prefill_messages_from.config_map_key_ref, "prefillMessagesFrom")
        try:
            prefill = prefill_messages(text)
        except PrefillInvalid as error:
            raise BadInput(f"{file}: spec.agent.prefillMessagesFrom: {error}") from error
    own_key = _api_key(file, run_file, environ) or ""
    keys = {
        **environ,
        names.ENV_API_KEY: own_key,
        **_tool_keys(file, run_file, environ),
        **_model_keys(file, run_file, environ, own_key),
        **_header_values(file, run_file, environ),
    }
    return run_settings.from_batchrun(run, prefill_messages=prefill, environ=keys)


def source_for(file: Path, run_file: RunFile) -> Source:
    """The data set; a file:// path that is not absolute counts from the file's own folder."""
    dataset = run_file.run.spec.dataset
    if dataset.config_map_key_ref is not None:
        return text_source(_config_map_text(file, run_file, dataset.config_map_key_ref, "dataset.configMapKeyRef"))
    if dataset.persistent_volume_claim is not None:
        raise BadInput(
            f"{file}: spec.dataset.persistentVolumeClaim: there are no claims on one machine; "
            "name the file itself as dataset.uri: file://path/to/prompts.jsonl"
        )
    parts = urlsplit(dataset.uri or "")
    if parts.scheme == "file":
        return file_source(file.parent / unquote(parts.netloc + parts.path))
    return source_of(dataset, run_file.run.spec.output)


def is_embedded_demo(run_file: RunFile) -> bool:
    """The demo model without a base URL of its own: it is served by this process."""
    model = run_file.run.spec.model
    return model.name == DEMO_MODEL and model.base_url == OPENROUTER_URL


def _api_key(file: Path, run_file: RunFile, environ: Mapping[str, str]) -> str | None:
    """OPENROUTER_API_KEY goes to openrouter.ai and nowhere else, OPENAI_API_KEY to any other base URL."""
    if is_embedded_demo(run_file):
        return None
    try:
        variable = key_variable(run_file.run.spec.model.base_url)
    except ValueError as error:
        raise BadInput(f"{file}: spec.model.baseURL is no web address: {error}") from error
    key = environ.get(variable) or None
    if key is None and variable == OPENROUTER_KEY:
        raise BadInput(f"{file}: spec.model.baseURL is openrouter.ai, which needs a key: set {variable}")
    if key is not None and (fault := key_fault(key)):
        raise BadInput(f"{variable} {fault}: copy the key again")
    return key


def _tool_keys(file: Path, run_file: RunFile, environ: Mapping[str, str]) -> dict[str, str]:
    """The search provider's key from its usual variable, under the name that runners read."""
    web = run_file.run.spec.tools.web
    if web is None or web.search.provider not in WITH_KEY:
        return {}
    variable = f"{web.search.provider.upper()}_API_KEY"
    key = environ.get(variable, "")
    if not key:
        raise BadInput(f"{file}: spec.tools.web.search.provider {web.search.provider} needs a key: set {variable}")
    if fault := key_fault(key):
        raise BadInput(f"{variable} {fault}: copy the key again")
    return {names.tool_key_variable("web.search"): key}


def _model_keys(file: Path, run_file: RunFile, environ: Mapping[str, str], own_key: str) -> dict[str, str]:
    """Keys of the models that tools ask, by the same rule; a variable of a tool's own wins, for a key of its own."""
    model = run_file.run.spec.model
    keys = {}
    for purpose, ref in run_file.run.spec.tools.model_refs().items():
        tool_variable = variable = names.tool_key_variable(purpose)
        if variable in environ:
            key = environ[variable]
        elif ref.base_url is None or (ref.is_at(model.base_url) and not is_embedded_demo(run_file)):
            key = own_key
        else:
            where = f"{file}: spec.tools: baseURL of the model {ref.name}"
            try:
                variable = key_variable(ref.base_url)
            except ValueError as error:
                raise BadInput(f"{where} is no web address: {error}") from error
            key = environ.get(variable, "")
            if not key and variable == OPENROUTER_KEY:
                raise BadInput(f"{where} is openrouter.ai, which needs a key: set {variable}")
        if fault := key_fault(key):
            raise BadInput(f"{variable} {fault}: copy the key again")
        keys[tool_variable] = key
    return keys


def _header_values(file: Path, run_file: RunFile, environ: Mapping[str, str]) -> dict[str, str]:
    """Values of MCP servers' headers that lie in Secrets on a cluster."""
    values = {}
    for number, server in enumerate(run_file.run.spec.tools.mcp_servers):
        for purpose in server.header_refs(number):
            variable = names.tool_key_variable(purpose)
            value = environ.get(variable, "")
            if not value:
                raise BadInput(
                    f"{file}: spec.tools.mcpServers: {server.name}: Secrets are not read on one machine; "
                    f"put the header's value into the environment as {variable}"
                )
            if fault := key_fault(value):
                raise BadInput(f"{variable} {fault}: copy the value again")
            values[variable] = value
    return values


def _config_map_text(file: Path, run_file: RunFile, reference: ConfigMapKeyRef, field: str) -> str:
    text = run_file.config_maps.get(reference.name, {}).get(reference.key)
    if text is None:
        raise BadInput(
            f"{file}: spec.{field}: there is no ConfigMap {reference.name} with the key {reference.key} in this file; "
            "on one machine it must stand there as a document of its own"
        )
    return text
