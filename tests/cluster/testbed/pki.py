"""Certificates and kubeconfigs.

They are kept when a broken cluster is repaired, so that a kubeconfig that somebody holds goes on working. Certificates
carry the extensions that strict clients ask for (Python 3.13 and later refuse a leaf without authority key id).
"""

from __future__ import annotations

import base64
import os
import shutil
from pathlib import Path

from tests.cluster.testbed.context import Context
from tests.cluster.testbed.settings import API_SERVICE_IP, NODE_NAME
from tests.cluster.testbed.shell import Word, run, succeeds, write_atomically

DAYS = "90"
_CONFIG = """\
[req]
distinguished_name = dn
[dn]
[ca]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign, digitalSignature
subjectKeyIdentifier = hash
[leaf]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature, keyEncipherment
extendedKeyUsage = serverAuth, clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""
_NEW_EC_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]

# Kubeconfig name → subject. The admin is a cluster administrator; the others get what Kubernetes' own roles give.
CLIENTS = {
    "admin": "/O=system:masters/CN=admin",
    "kubelet": f"/O=system:nodes/CN=system:node:{NODE_NAME}",
    "controller-manager": "/CN=system:kube-controller-manager",
    "scheduler": "/CN=system:kube-scheduler",
    "proxy": "/CN=system:kube-proxy",
    "coredns": "/CN=system:coredns",
    "kube-router": "/CN=system:kube-router",
}


def _issue(folder: Path, name: str, subject: str, alt_names: str = "") -> None:
    """Write `<name>.key` and `<name>.crt`, signed by the folder's CA."""
    extensions = folder / f"{name}.cnf"
    extensions.write_text(_CONFIG + (f"subjectAltName = {alt_names}\n" if alt_names else ""))
    key, request, certificate = (folder / f"{name}.{kind}" for kind in ("key", "csr", "crt"))
    config: list[Word] = ["-config", extensions]
    run(["openssl", "req", *config, *_NEW_EC_KEY, "-keyout", key, "-out", request, "-subj", subject])
    signing: list[Word] = ["-CA", folder / "ca.crt", "-CAkey", folder / "ca.key", "-CAcreateserial", "-days", DAYS]
    extending: list[Word] = ["-extfile", extensions, "-extensions", "leaf"]
    run(["openssl", "x509", "-req", "-in", request, *signing, *extending, "-out", certificate])


def _make_all(folder: Path, node_ip: str) -> None:
    (folder / "ca.cnf").write_text(_CONFIG)
    ca: list[Word] = ["-x509", "-config", folder / "ca.cnf", "-extensions", "ca"]
    ca += ["-days", DAYS, "-subj", "/CN=batchrun-test"]
    run(["openssl", "req", *ca, *_NEW_EC_KEY, "-keyout", folder / "ca.key", "-out", folder / "ca.crt"])
    run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", folder / "sa.key"])
    run(["openssl", "ec", "-in", folder / "sa.key", "-pubout", "-out", folder / "sa.pub"])
    service = "kubernetes.default.svc"
    names = ["localhost", "kubernetes", "kubernetes.default", service, f"{service}.cluster.local"]
    addresses = ["127.0.0.1", API_SERVICE_IP, node_ip]
    api_names = ",".join([*(f"DNS:{name}" for name in names), *(f"IP:{address}" for address in addresses)])
    _issue(folder, "apiserver", "/CN=kube-apiserver", api_names)
    for name, subject in CLIENTS.items():
        _issue(folder, name, subject, f"DNS:{NODE_NAME},IP:{node_ip}" if name == "kubelet" else "")


def ensure_pki(context: Context) -> None:
    """Make all keys unless there is a whole set for this address that is valid for another week."""
    folder, address = context.layout.pki, context.layout.pki / "node-ip"
    valid: list[Word] = ["openssl", "x509", "-noout", "-checkend", str(7 * 24 * 3600), "-in", folder / "ca.crt"]
    whole = all((folder / f"{name}.crt").is_file() for name in CLIENTS)
    if whole and address.is_file() and address.read_text() == context.node_ip and succeeds(valid):
        return
    building = folder.with_name(f".pki-{os.getpid()}")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True, mode=0o700)
    _make_all(building, context.node_ip)
    (building / "node-ip").write_text(context.node_ip)
    shutil.rmtree(folder, ignore_errors=True)
    building.rename(folder)


def kubeconfig_text(context: Context, client: str) -> str:
    """A kubeconfig with everything inside, for one of CLIENTS; the server is the node's address, so pods can use it."""

    def encoded(file_name: str) -> str:
        return base64.b64encode((context.layout.pki / file_name).read_bytes()).decode()

    return f"""\
apiVersion: v1
kind: Config
clusters:
- name: batchrun-test
  cluster:
    server: {context.api_url}
    certificate-authority-data: {encoded("ca.crt")}
users:
- name: {client}
  user:
    client-certificate-data: {encoded(f"{client}.crt")}
    client-key-data: {encoded(f"{client}.key")}
contexts:
- name: batchrun-test
  context: {{cluster: batchrun-test, user: {client}}}
current-context: batchrun-test
"""


def kubeconfig_path(context: Context, client: str) -> Path:
    return context.layout.config / f"{client}.kubeconfig"


def write_kubeconfigs(context: Context) -> None:
    for client in CLIENTS:
        write_atomically(kubeconfig_path(context, client), kubeconfig_text(context, client), mode=0o600)
