"""Logs: one JSON object a line in a pod, readable lines on a terminal."""

import logging
import sys

import structlog

from batchrun_operator.settings import LogFormat


def configure_logs(level: str, form: LogFormat) -> None:
    """Everything goes through one formatter, kopf's own lines too."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    last = structlog.dev.ConsoleRenderer() if form == "console" else structlog.processors.JSONRenderer()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, last],
        )
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for chatty in ("kopf.objects", "kopf.activities.probe", "aiohttp.access"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
