"""The NetworkPolicy of a run: when it is asked for, what it leads to, and what is found out for it."""

from dataclasses import replace
from datetime import timedelta
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from tests.unit.operator.builders import (
    LIMITS,
    NOW,
    PODS,
    UID,
    actions_of,
    condition,
    ended_runner,
    job,
    message,
    observed,
    plan,
    pod,
    policy_of,
    raw_spec,
    run,
    subject,
)
from tests.unit.operator.fake_kube import FakeKube, Json
from tests.unit.operator.world import World

from batchrun_api.exit_codes import ExitCode
from batchrun_api.messages import BatchMessage
from batchrun_operator.apply import apply
from batchrun_operator.gather import gather
from batchrun_operator.kube import KubeError
from batchrun_operator.manifests import network_policy, plan_shards
from batchrun_operator.manifests.network_policy import Address, ServicePods, Surroundings, policy_name
from batchrun_operator.manifests.ranges import Blocked
from batchrun_operator.memory import RunMemory
from batchrun_operator.reconcile.decide import decide
from batchrun_operator.reconcile.decision import Decision, DeleteNetworkPolicy, EnsureJob, EnsureNetworkPolicy
from batchrun_operator.reconcile.observed import Network, Observed, Policy, Refusal, Run, Shards
from batchrun_operator.surroundings import Resolve, look_around, services_named

NEAR = Surroundings((Address("10.1.2.3", 8000),), ("10.96.0.1",))
OPEN: dict[str, Any] = {"sandbox": {"network": {"mode": "Open"}}}
DENIED: dict[str, Any] = {"sandbox": {"network": {"mode": "Denied"}}}
EXPLICIT: dict[str, Any] = {"sandbox": {"network": {"mode": "InternetOnly"}}}


def think(observed_: Observed) -> Decision:
    return decide(observed_, NOW, PODS, LIMITS)


def planned(run_: Run, network: Network | None, **fields: Any) -> Observed:
    begun = replace(run_, status=think(observed(run_)).status)
    return observed(begun, shards=Shards(plan(2, 2)), network=network, **fields)


# ---- when it is asked for ----


@pytest.mark.parametrize("spec", [{}, EXPLICIT], ids=["left out", "by name"])
def test_the_policy_is_made_before_the_first_batch(spec: dict[str, Any]) -> None:
    decision = think(planned(run(**spec), Network(None, NEAR)))
    kinds = [type(action) for action in decision.actions]
    assert kinds.index(EnsureNetworkPolicy) < kinds.index(EnsureJob)
    assert kinds.count(EnsureNetworkPolicy) == 1


@pytest.mark.parametrize("spec", [OPEN, DENIED], ids=["Open", "Denied"])
def test_other_modes_make_no_policy(spec: dict[str, Any]) -> None:
    decision = think(planned(run(**spec), Network()))
    assert not actions_of(decision, EnsureNetworkPolicy)
    assert actions_of(decision, EnsureJob)


@pytest.mark.parametrize("network", [None, Network(fault="networkpolicies is forbidden")])
def test_no_batch_begins_while_the_policy_is_not_known(network: Network | None) -> None:
    decision = think(planned(run(), network))
    assert not actions_of(decision, EnsureJob)
    assert condition(decision, "Progressing") == ("False", "NetworkNotEnforced")
    assert "sandbox.network.mode to Denied or Open" in message(decision, "Progressing")


def test_a_policy_as_it_must_be_is_left_alone() -> None:
    decision = think(planned(run(), Network(policy_of(run(), NEAR), NEAR)))
    assert not actions_of(decision, EnsureNetworkPolicy)
    assert actions_of(decision, EnsureJob)


@pytest.mark.parametrize(
    "found",
    [
        policy_of(run(), Surroundings()),
        Policy("x", {**policy_of(run(), NEAR).spec, "egress": [{}]}),
        replace(policy_of(run(), NEAR), is_ours=False),
    ],
    ids=["address changed", "edited by hand", "not ours"],
)
def test_a_policy_that_is_not_as_it_must_be_is_asked_for_again_while_batches_run(found: Policy) -> None:
    at_work = [{"jobs": (job(batch=0), job(batch=1)), "pods": (pod(batch=0), pod(batch=1))}]
    decision = think(planned(run(), Network(found, NEAR), **at_work[0]))
    (action,) = actions_of(decision, EnsureNetworkPolicy)
    assert action.manifest == network_policy(subject(), NEAR)


def test_a_policy_of_an_earlier_mode_goes() -> None:
    decision = think(planned(run(**OPEN), Network(Policy("policy-uid", {}))))
    assert actions_of(decision, DeleteNetworkPolicy) == [DeleteNetworkPolicy(policy_name("demo", UID), "policy-uid")]
    assert not actions_of(think(planned(run(**OPEN), Network(Policy("other", {}, is_ours=False)))), DeleteNetworkPolicy)


def test_a_refused_policy_is_said_with_the_fix_and_no_batch_begins() -> None:
    refused = {policy_name("demo", UID): Refusal("NetworkNotEnforced", "networkpolicies is forbidden.")}
    decision = think(planned(run(), Network(None, NEAR), refusals=refused))
    assert not actions_of(decision, EnsureJob)
    assert actions_of(decision, EnsureNetworkPolicy), "it is tried again"
    assert condition(decision, "Progressing") == ("False", "NetworkNotEnforced")
    text = message(decision, "Progressing")
    assert "was refused: networkpolicies is forbidden. Grant" in text


def test_a_cluster_that_does_not_enforce_it_ends_the_run_with_the_fix() -> None:
    word = BatchMessage(reason="NetworkNotEnforced", message="the API server still answers").encode()
    pods = (pod(batch=0, runner=ended_runner(ExitCode.BLOCKED, word)),)
    decision = think(planned(run(), Network(policy_of(run(), NEAR), NEAR), jobs=(job(batch=0),), pods=pods))
    assert condition(decision, "Failed") == ("True", "NetworkNotEnforced")
    text = message(decision, "Failed")
    assert text.startswith("batch 0: the API server still answers. Install a policy engine")
    assert "sandbox.network.mode to Denied or Open" in text
    assert "batchrun.dev/retry" in text


# ---- what it leads to ----


def allowed(address: str, port: int, policy: Json) -> bool:
    """As an engine reads the policy's ipBlocks."""
    ip = ip_address(address)
    for rule in policy["spec"]["egress"]:
        ports = [entry["port"] for entry in rule.get("ports", ())]
        blocks = [peer["ipBlock"] for peer in rule.get("to", ()) if "ipBlock" in peer]
        fits = not rule.get("to") or any(
            ip in ip_network(block["cidr"]) and not any(ip in ip_network(text) for text in block.get("except", ()))
            for block in blocks
        )
        if fits and (not ports or port in ports):
            return True
    return False


POLICY = network_policy(
    replace(subject(), pods=replace(PODS, blocked_ranges=("203.0.113.0/24",))),
    Surroundings(
        (Address("10.1.2.3", 8000), Address("198.51.100.77", 7070)), api_server=("10.96.0.1", "198.51.100.77")
    ),
)


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.168.1.1",
        "224.0.0.1",
        "255.255.255.255",
        "203.0.113.9",
        "198.51.100.77",
        "10.1.2.3",
        "::1",
        "fd00:ec2::254",
        "fe80::1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b::a01:203",
        "64:ff9b::c633:644d",
    ],
)
def test_near_addresses_are_blocked(address: str) -> None:
    assert not allowed(address, 443, POLICY)


@pytest.mark.parametrize("address", ["1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::101:101"])
def test_the_internet_is_reached_on_every_port(address: str) -> None:
    assert all(allowed(address, port, POLICY) for port in (22, 443, 65535))


def test_model_and_store_are_reached_at_their_ports_only() -> None:
    assert allowed("10.1.2.3", 8000, POLICY)
    assert allowed("198.51.100.77", 7070, POLICY)
    assert not allowed("10.1.2.3", 8001, POLICY)
    assert not allowed("198.51.100.77", 6443, POLICY)


def test_names_are_asked_for_anywhere() -> None:
    assert allowed("10.96.0.10", 53, POLICY)


def test_the_ranges_that_the_spec_opens_for_pages_are_open_and_no_more() -> None:
    web = {"search": {"provider": "DuckDuckGo"}, "allowedRanges": ["10.9.0.0/16"]}
    opened = network_policy(subject(tools={"web": web}), Surroundings())

    assert allowed("10.9.1.1", 8080, opened)
    assert not allowed("10.8.1.1", 8080, opened)


@pytest.mark.parametrize("cidr", ["10.9.0.0/16", "10.9.1.2/32"])
def test_no_range_of_the_spec_opens_the_api_server(cidr: str) -> None:
    web = {"search": {"provider": "DuckDuckGo"}, "allowedRanges": [cidr]}
    opened = network_policy(subject(tools={"web": web}), Surroundings(api_server=("10.9.1.2", "2001:db8::1")))

    assert not allowed("10.9.1.2", 6443, opened)


@pytest.mark.parametrize("everything", ["0.0.0.0/0", "::/0"])
def test_a_family_that_is_blocked_as_a_whole_has_no_rule(everything: str) -> None:
    """The API server takes no exception as large as its block."""
    families = [block["ipBlock"]["cidr"] for block in Blocked((everything,)).internet()]
    assert families == [family for family in ("0.0.0.0/0", "::/0") if family != everything]


# ---- what is found out for it ----


def service(name: str, namespace: str = "ns", **spec: Any) -> Json:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterIPs": ["10.96.7.7"], **spec}}


def endpoint_slice(service_name: str, namespace: str, *addresses: str, **port: Any) -> Json:
    labels = {"kubernetes.io/service-name": service_name}
    return {
        "metadata": {"name": service_name, "namespace": namespace, "labels": labels},
        "endpoints": [{"addresses": list(addresses)}],
        "ports": [port],
    }


def telling(**names: tuple[str, ...]) -> Resolve:
    """A resolver; `_` stands for `.` in names."""
    known = {name.replace("_", "."): found for name, found in names.items()}

    async def resolve(host: str) -> tuple[str, ...]:
        return known.get(host, ())

    return resolve


async def around(
    kube: FakeKube, url: str, resolve: Resolve, memory: RunMemory | None = None, minutes: float = 0
) -> Surroundings:
    store = {"s3": {"bucket": "results", "endpointURL": "http://192.0.2.9:7070"}}
    mine = run(model={"name": "m", "baseURL": url}, output=store)
    found = await look_around(kube, mine, memory or RunMemory(), NOW + timedelta(minutes=minutes), resolve)
    assert found.servers[-1] == Address("192.0.2.9", 7070), "the store"
    return replace(found, servers=found.servers[:-1])


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("http://10.1.2.3:8000/v1", Address("10.1.2.3", 8000)),
        ("https://[fd00::5]/v1", Address("fd00::5", 443)),
        ("http://[::ffff:10.1.2.3]:8000/v1", Address("10.1.2.3", 8000)),
        ("http://model.example.org/v1", Address("10.7.7.7", 80)),
    ],
)
async def test_addresses_and_names_become_addresses_with_their_ports(url: str, server: Address) -> None:
    found = await around(FakeKube(), url, telling(model_example_org=("10.7.7.7",)))
    assert found.servers == (server,)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "[fe80::1%25eth0]"])
async def test_loopback_is_the_pods_own_and_needs_no_rule(host: str) -> None:
    resolve = telling(localhost=("127.0.0.1", "::1"))
    assert (await around(FakeKube(), f"http://{host}:8000/v1", resolve)).servers == ()


@pytest.mark.parametrize(
    "host", ["vllm", "vllm.ns", "vllm.ns.svc", "vllm.ns.svc.cluster.local", "vllm-0.vllm.ns.svc", "VLLM.ns.svc."]
)
async def test_a_service_becomes_its_pods_at_their_own_port(host: str) -> None:
    kube = FakeKube()
    ports = [{"port": 80, "targetPort": "http"}, {"port": 9000}]
    kube.put("services", service("vllm", selector={"tier": "gpu", "app": "vllm"}, ports=ports))
    found = await around(kube, f"http://{host}/v1", telling())
    pods = ServicePods("ns", (("app", "vllm"), ("tier", "gpu")), "http")
    assert found.servers == (Address("10.96.7.7", 80), pods)
    assert (await around(kube, f"http://{host}:9000/v1", telling())).servers[1] == replace(pods, port=9000)


async def test_a_headless_service_is_reached_at_the_port_of_the_url() -> None:
    kube = FakeKube()
    ports = [{"port": 80, "targetPort": 8000}]
    kube.put("services", service("vllm", clusterIPs=["None"], selector={"app": "vllm"}, ports=ports))
    assert (await around(kube, "http://vllm:80/v1", telling())).servers == (ServicePods("ns", (("app", "vllm"),), 80),)


async def test_a_service_without_pods_becomes_the_addresses_that_were_written_for_it() -> None:
    kube = FakeKube()
    kube.put("services", service("far", ports=[{"name": "http", "port": 80}, {"name": "other", "port": 81}]))
    kube.put("endpointslices", endpoint_slice("far", "ns", "192.168.5.5", "192.168.5.6", name="http", port=8080))
    found = await around(kube, "http://far.ns.svc/v1", telling())
    assert found.servers == (Address("10.96.7.7", 80), Address("192.168.5.5", 8080), Address("192.168.5.6", 8080))


async def test_an_external_name_is_looked_up() -> None:
    kube = FakeKube()
    kube.put("services", service("far", type="ExternalName", externalName="model.example.org"))
    found = await around(kube, "http://far.ns.svc:8000/v1", telling(model_example_org=("10.7.7.7",)))
    assert found.servers == (Address("10.7.7.7", 8000),)


async def test_servers_that_tools_ask_are_found_too() -> None:
    web = {"search": {"provider": "SearXNG", "baseURL": "http://10.9.9.9:8888"}}
    found = await look_around(FakeKube(), run(tools={"web": web}), RunMemory(), NOW, telling())

    assert Address("10.9.9.9", 8888) in found.servers


def test_names_of_the_internet_are_no_services() -> None:
    assert services_named("openrouter.ai", "ns") == [("ai", "openrouter")]
    assert services_named("api.openai.com", "ns") == []
    assert services_named("svc.example.com", "ns") == []


async def test_addresses_that_a_name_has_lately_had_stay_and_go_in_the_end() -> None:
    memory, url = RunMemory(), "http://model.example.org/v1"

    async def at(minutes: float, *addresses: str) -> list[str]:
        resolve = telling(model_example_org=addresses)
        found = (await around(FakeKube(), url, resolve, memory, minutes)).servers
        return [server.ip for server in found if isinstance(server, Address)]

    assert await at(0, "10.0.0.1") == ["10.0.0.1"]
    assert await at(1, "10.0.0.2") == ["10.0.0.1", "10.0.0.2"]
    assert await at(30) == ["10.0.0.1", "10.0.0.2"], "nobody answered"
    assert await at(31, "10.0.0.2") == ["10.0.0.2"]


async def test_the_api_servers_own_addresses_are_found() -> None:
    kube = FakeKube()
    kube.put("services", service("kubernetes", "default", clusterIPs=["10.96.0.1"]))
    kube.put("endpointslices", endpoint_slice("kubernetes", "default", "198.51.100.77", name="https", port=6443))
    assert (await around(kube, "http://10.1.2.3/v1", telling())).api_server == ("10.96.0.1", "198.51.100.77")


@pytest.mark.parametrize(
    ("s3", "hosts"),
    [
        ({"region": "eu-west-1"}, ["s3.eu-west-1.amazonaws.com", "results.s3.eu-west-1.amazonaws.com"]),
        ({}, ["s3.amazonaws.com", "results.s3.amazonaws.com"]),
        ({"endpointURL": "http://store.example.org"}, ["store.example.org"]),
        (
            {"endpointURL": "http://store.example.org", "forcePathStyle": False},
            ["store.example.org", "results.store.example.org"],
        ),
    ],
)
async def test_a_store_is_looked_up_by_the_names_that_its_client_uses(s3: dict[str, Any], hosts: list[str]) -> None:
    asked: list[str] = []

    async def resolve(host: str) -> tuple[str, ...]:
        asked.append(host)
        return ("10.9.9.9",)

    mine = run(output={"s3": {"bucket": "results", **s3}}, model={"name": "m", "baseURL": "http://10.1.2.3:1/v1"})
    found = await look_around(FakeKube(), mine, RunMemory(), NOW, resolve)
    assert asked == hosts
    assert Address("10.9.9.9", 80 if "endpointURL" in s3 else 443) in found.servers


# ---- with an API server ----

RAW: Json = {
    "metadata": {"name": "demo", "namespace": "ns", "uid": UID, "generation": 1},
    "spec": raw_spec(model={"name": "m", "baseURL": "http://10.1.2.3:8000/v1"}),
}


async def look(kube: FakeKube, raw: Json = RAW) -> Observed:
    return await gather(kube, raw, RunMemory(), NOW, LIMITS, telling())


async def with_shards(kube: FakeKube, raw: Json = RAW) -> None:
    mine = replace(subject(), plan_id=(await look(kube, raw)).run.plan_id)
    for shard in plan_shards(mine, plan(2).model_copy(update={"plan_id": mine.plan_id})):
        kube.put("configmaps", shard)


async def test_nothing_is_looked_up_before_there_is_a_plan() -> None:
    assert (await look(FakeKube())).network is None


async def test_policy_and_surroundings_are_looked_at_once_there_is_a_plan() -> None:
    kube = FakeKube()
    await with_shards(kube)
    assert (await look(kube)).network == Network(None, Surroundings((Address("10.1.2.3", 8000),)))
    made = kube.put("networkpolicies", network_policy(subject(), NEAR))
    seen = (await look(kube)).network
    assert seen is not None
    assert seen.policy == Policy(made["metadata"]["uid"], made["spec"])
    made["metadata"]["ownerReferences"] = []
    seen = (await look(kube)).network
    assert seen is not None
    assert seen.policy is not None
    assert not seen.policy.is_ours


async def test_an_open_run_asks_for_no_address() -> None:
    kube, raw = FakeKube(), RAW | {"spec": RAW["spec"] | OPEN}
    await with_shards(kube, raw)
    assert (await look(kube, raw)).network == Network()
    assert "get services" not in kube.calls


def asking_for(around_: Surroundings) -> Decision:
    decision = think(planned(run(), Network(None, around_)))
    return replace(decision, status=run().status)


async def test_a_policy_is_made_updated_in_place_and_written_once() -> None:
    kube, memory = FakeKube(), RunMemory()
    raw = kube.put("batchruns", RAW | {"apiVersion": "v", "kind": "k"}) | {"status": {}}
    for around_ in (Surroundings(), NEAR, NEAR):
        await apply(kube, raw, asking_for(around_), memory, NOW)
        (found,) = kube.all("networkpolicies")
        assert found["spec"] == network_policy(subject(), around_)["spec"]
    assert kube.calls.count("patch networkpolicies") == 1


@pytest.mark.parametrize("why", ["forbidden", "not ours"])
async def test_where_the_policy_is_refused_no_job_is_made_and_it_is_remembered(why: str) -> None:
    kube, memory = FakeKube(), RunMemory()
    raw = kube.put("batchruns", RAW | {"apiVersion": "v", "kind": "k"}) | {"status": {}}
    if why == "forbidden":
        kube.refuse["networkpolicies"] = "forbidden"
    else:
        foreign = network_policy(subject(), NEAR)
        foreign["metadata"]["ownerReferences"] = []
        kube.put("networkpolicies", foreign)
    with pytest.raises(KubeError):
        await apply(kube, raw, asking_for(NEAR), memory, NOW)
    assert why in memory.refusals[policy_name("demo", UID)].message
    assert not kube.all("jobs")


async def test_a_whole_run_goes_on_when_the_policy_is_allowed_at_last() -> None:
    world = World([2, 2])
    world.kube.refuse["networkpolicies"] = "forbidden by policy"
    with pytest.raises(AssertionError, match="does not end"):
        await world.settle(passes=60)
    assert world.condition("Progressing") == ("False", "NetworkNotEnforced")
    assert not [item for item in world.kube.all("jobs") if "-b" in item["metadata"]["name"]]
    del world.kube.refuse["networkpolicies"]
    await world.settle()
    assert world.condition("Complete") is not None
    assert len(world.kube.all("networkpolicies")) == 1
