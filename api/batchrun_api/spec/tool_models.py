"""Models that tools ask, and the settings of the toolsets that ask them (docs/decisions/0020)."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from batchrun_api.spec.base import CIDR, ApiModel, HttpURL, Rule, SecretKeyRef, ShortText
from batchrun_api.spec.model import BASE_URL_RULES

IMAGE_SIZE = r"^(auto|[1-9][0-9]{0,4}x[1-9][0-9]{0,4})$"
MOST_REFERENCE_MODELS = 8
AddressRange = Annotated[str, Field(min_length=4, max_length=64, pattern=CIDR)]
AddressRanges = Annotated[list[AddressRange], Field(max_length=32)]


class ModelRef(ApiModel):
    """A model that a tool asks. The run's own key goes to the run's own base URL and to no other."""

    name: ShortText
    """Model name as its server knows it."""
    base_url: Annotated[HttpURL | None, Field(alias="baseURL")] = None
    """Base URL of an OpenAI-compatible API. Left out: the run's own (model.baseURL)."""
    api_key_secret_ref: SecretKeyRef | None = None
    """The API key. Left out: the run's own key at the run's own base URL, none at another one."""

    rules: ClassVar[tuple[Rule, ...]] = BASE_URL_RULES

    def is_at(self, own_base_url: str) -> bool:
        """Whether it is asked at the run's own base URL."""
        return self.base_url is None or self.base_url.rstrip("/") == own_base_url.rstrip("/")


class Vision(ApiModel):
    """The toolset `vision`: questions about pictures."""

    model: ModelRef | None = None
    """The model that looks at pictures. Left out: the run's own, which must take pictures then."""
    allowed_ranges: AddressRanges = Field(default_factory=list)
    """Ranges of private addresses (10.1.0.0/16) from which pictures may be fetched all the same. No others are."""

    def acting(self) -> dict[str, Any]:
        """What of it acts on results."""
        return {"model": self.model.name} if self.model else {}


class ImageGen(ApiModel):
    """The toolset `image_gen`: pictures from descriptions."""

    model: ModelRef
    """The model that makes pictures, at a server with OpenAI's images API."""
    size: Annotated[str, Field(min_length=3, max_length=16, pattern=IMAGE_SIZE)] | None = None
    """Size where the agent asks for none: 1024x1024, or auto. Left out: the server's own."""

    def acting(self) -> dict[str, Any]:
        """What of it acts on results."""
        return {"model": self.model.name, **({"size": self.size} if self.size else {})}


class MixtureOfAgents(ApiModel):
    """The toolset `moa`: several models answer a problem, one makes the best of their answers."""

    reference_models: Annotated[list[ModelRef], Field(min_length=1, max_length=MOST_REFERENCE_MODELS)]
    """Models that answer first, all at the same time. It is enough that one of them answers."""
    aggregator: ModelRef | None = None
    """The model that reads their answers and writes the final one. Left out: the run's own."""

    def acting(self) -> dict[str, Any]:
        """What of it acts on results."""
        aggregator = {"aggregator": self.aggregator.name} if self.aggregator else {}
        return {"referenceModels": [ref.name for ref in self.reference_models], **aggregator}

    def refs(self) -> dict[str, ModelRef | None]:
        """All its models by what they are for: moa.0, moa.1, ..., moa.aggregator; None: the run's own."""
        references = {reference_purpose(number): ref for number, ref in enumerate(self.reference_models)}
        return {**references, MOA_AGGREGATOR: self.aggregator}


MOA_AGGREGATOR = "moa.aggregator"


def reference_purpose(number: int) -> str:
    """What a reference model's key is for; `number` from 0."""
    return f"moa.{number}"
