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


def with_prefix_replaced(image: str, old: str, new: str) -> str | None:
    """An image's whole name with `new` where its first components are `old`; None where they are not.

    `old` and `new` are a registry, or a registry and folders, without a tag. Components match as a whole, so that
    docker.io/libraryx is not in docker.io/library; tag and digest stay.
    """
    whole = whole_name(image)
    name, at, digest = whole.partition("@")
    folder, slash, last = name.rpartition("/")
    last, colon, tag = last.partition(":")
    components, wanted = f"{folder}{slash}{last}".split("/"), old.split("/")
    if components[: len(wanted)] != wanted:
        return None
    return "/".join([new, *components[len(wanted) :]]) + colon + tag + at + digest
