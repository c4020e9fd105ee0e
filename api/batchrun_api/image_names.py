"""Names of container images, as docker reads them."""


def whole_name(image: str) -> str:
    """An image's name with its registry, as docker reads it: `python:3` is docker.io/library/python:3.

    podman asks which registry is meant, or refuses, unless it is configured.
    """
    name = image.removeprefix("docker.io/")
    first, slash, _ = name.partition("/")
    if slash and (first == "localhost" or "." in first or ":" in first):
        return image
    return f"docker.io/{name}" if slash else f"docker.io/library/{name}"
