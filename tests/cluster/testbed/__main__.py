"""Command line of the testbed: `python -m tests.cluster.testbed VERB`, from the repository's root."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.cluster.testbed import cluster, given, images, install, local_images
from tests.cluster.testbed.errors import TestbedError
from tests.cluster.testbed.settings import REPO_DIR, Layout
from tests.cluster.testbed.shell import say


def _up(arguments: argparse.Namespace) -> int:
    if given.is_given(Layout()):
        given.up(Layout())
    else:
        cluster.up(serialize_pulls=arguments.serialize_image_pulls)
    return 0


def _down(_: argparse.Namespace) -> int:
    cluster.down()
    return 0


def _status(_: argparse.Namespace) -> int:
    context = cluster.make_context()
    rows = [cluster.component_status(context, name) for name in cluster.COMPONENTS]
    for row in rows:
        state = "ready" if row.ready else "running, not ready" if row.running else "not running"
        print(f"{row.name:26} {row.pid or '-':>8} {state}")
    node = cluster.node_is_ready(context) if (context.layout.pki / "node-ip").is_file() else False
    print(f"{'node':26} {'-':>8} {'ready' if node else 'not ready'}")
    return 0 if node and all(row.ready for row in rows) else 1


def _restart(arguments: argparse.Namespace) -> int:
    context = cluster.make_context()
    for name in arguments.components:
        cluster.restart(context, name)
        say(f"{name} is up")
    return 0


def _build(arguments: argparse.Namespace) -> int:
    layout = Layout()
    build_args = dict(argument.split("=", 1) for argument in arguments.build_arg)
    local_images.build_project_image(layout, arguments.file, arguments.tag, arguments.context, build_args)
    if not arguments.no_load:
        images.load_image(layout, arguments.tag)
    return 0


def _load(arguments: argparse.Namespace) -> int:
    for word in arguments.images:
        path = Path(word)
        if path.is_file():
            images.load_archive(Layout(), path)
        else:
            images.load_image(Layout(), word)
    return 0


def _bases(_: argparse.Namespace) -> int:
    print(local_images.ensure_python_base(Layout()))
    print(local_images.ensure_go_base(Layout()))
    return 0


def _test_images(_: argparse.Namespace) -> int:
    local_images.load_sandbox_images(Layout())
    print("\n".join(local_images.sandbox_image_names().values()))
    return 0


def _project_images(_: argparse.Namespace) -> int:
    if given.is_given(Layout()):
        given.check_images(Layout())
    else:
        local_images.load_project_images(Layout())
        local_images.load_sandbox_images(Layout())
    return 0


def _install(_: argparse.Namespace) -> int:
    install.install(Layout())
    return 0


def _key_value(text: str) -> str:
    if "=" not in text:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.testbed", description=__doc__)
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    def verb(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        added = verbs.add_parser(name, help=text, description=text)
        added.set_defaults(run=run)
        return added

    up = verb("up", _up, "make the cluster and the S3 server, or repair or find them")
    choice = argparse.BooleanOptionalAction
    up.add_argument("--serialize-image-pulls", action=choice, default=None, help="the kubelet's setting of that name")
    verb("down", _down, "stop everything and remove all but the cache")
    verb("status", _status, "print each component; status 1 unless all is well")
    restart = verb("restart", _restart, "SIGKILL and start single components")
    restart.add_argument("components", nargs="+", choices=list(cluster.COMPONENTS), metavar="COMPONENT")
    build = verb("build", _build, "build a Dockerfile on the local bases and load the image")
    build.add_argument("--file", type=Path, required=True)
    build.add_argument("--tag", required=True)
    build.add_argument("--context", type=Path, default=REPO_DIR, help="default: the repository")
    build.add_argument("--build-arg", type=_key_value, action="append", default=[], metavar="KEY=VALUE")
    build.add_argument("--no-load", action="store_true", help="build only; needs no cluster")
    load = verb("load", _load, "load archives, or images that `build` made, into the cluster")
    load.add_argument("images", nargs="+", metavar="ARCHIVE|NAME")
    verb("bases", _bases, "make the Python and Go base images")
    verb("test-images", _test_images, "build and load the sandbox images of the tests")
    verb(
        "project-images", _project_images, "build and load the operator, the runner and the sandbox images of the tests"
    )
    verb("install", _install, "install the chart and what the example needs")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    try:
        result: int = arguments.run(arguments)
    except TestbedError as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 1
    return result


if __name__ == "__main__":
    sys.exit(main())
