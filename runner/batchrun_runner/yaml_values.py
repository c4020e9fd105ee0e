"""YAML with the values that kubectl makes of it: it turns a file into JSON first, which has fewer kinds of them."""

import yaml
from yaml.constructor import SafeConstructor

_DATE = "tag:yaml.org,2002:timestamp"


class Loader(yaml.SafeLoader):
    """What looks like a date stays text."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _DATE]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _number(constructor: SafeConstructor, node: yaml.ScalarNode) -> float:
    """10.0 is the integer 10."""
    value = constructor.construct_yaml_float(node)
    return int(value) if value.is_integer() else value


def _text(constructor: SafeConstructor, node: yaml.ScalarNode) -> str:
    """JSON escapes a character beyond the first 65,536 as two halves; YAML's reader leaves them apart."""
    text = str(constructor.construct_scalar(node))
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        return text  # half a character, which no field takes


class Constructor(SafeConstructor):
    """Values of nodes that `Loader` composed."""

    yaml_constructors = SafeConstructor.yaml_constructors | {
        "tag:yaml.org,2002:float": _number,
        "tag:yaml.org,2002:str": _text,
    }
