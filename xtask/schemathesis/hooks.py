"""What schemathesis can't know of this API: which requests would do harm here, and which refusals no schema can foretell."""

import re

import schemathesis

# Rules between fields, rules of the pool that is named, and what this control plane was started without. Any other 400 for a request that
# fits the document is a finding: then the document says too little.
BEYOND_A_SCHEMA = re.compile(
    "|".join(
        [
            # Between the fields of a pool's settings, as far as `agreeing` leaves them.
            r"^min_idle: is \d+, but max is only",
            r"^scope: must be",
            # Of this control plane.
            r"is not part of this (control plane|version)",
            r"has no credentials for",
            r"there is no such resource class",
            r"^teams: (there is no team|names )",
            # Of the pool that is named.
            r"^count is \d+; pool",
            r"^max_runtime_minutes must be from 1 to pool",
            r"^no machine of pool \S+ can ever fit",
            r"^pool \S+ launches its machines itself",
            r"^credential \"token\" is for pools whose CI system hands out jobs",
            # Of a listing, and of a removal.
            r"is not where a page of this listing ended",
            r"^drain and force are asked for at once",
        ]
    )
)


def operation_id(case):
    return case.operation.definition.raw.get("operationId")


def message(response):
    try:
        return response.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return ""


def with_whole_numbers(value):
    """To a schema 2.0 is an integer. To the API it is none, and a schema can't say so."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [with_whole_numbers(item) for item in value]
    if isinstance(value, dict):
        return {name: with_whole_numbers(item) for name, item in value.items()}
    return value


def agreeing(settings):
    """A pool's settings without the contradictions between them, so that each value is judged by itself. Never of a local pool."""
    settings = {**settings, "dispatch": "claim"}
    for name in [name for name in settings if name.endswith("_minutes")]:
        settings.pop(name.replace("_minutes", "_seconds"), None)
    if settings.get("ec2"):
        machine = {name: settings.get(name) or 2048 for name in ("cpu", "memory_mb")}
        return {**settings, **machine, "backend": "ec2", "clean": "replace"}
    return {**settings, "backend": "bare_metal", "ec2": None, "clean": "cleanup", "cleanup_cmd": "true", "min_idle": 0}


@schemathesis.hook
def before_load_schema(context, raw_schema):
    # Ten pairs of settings exclude each other. The generator would need a schema for each of their combinations.
    raw_schema["components"]["schemas"]["PoolSettings"].pop("allOf")


@schemathesis.hook
def before_call(context, case, kwargs):
    body = {}
    if isinstance(case.body, dict):
        body = case.body = with_whole_numbers(case.body)
    if operation_id(case) in ("put_pool", "plan_pool"):
        if body and case.meta is not None and case.meta.generation.mode.is_positive:
            body = case.body = agreeing(body)
        # A local pool launches processes on this host, with whatever scripts its settings have.
        if body.get("backend") == "local":
            body["backend"] = "bare_metal"
    # Nobody has the time to wait for nothing.
    if isinstance(body.get("wait_ms"), int):
        body["wait_ms"] = min(body["wait_ms"], 100)
    query = case.query or {}
    if isinstance(query.get("wait"), int) and 1 < query["wait"] <= 60:
        query["wait"] = 1


@schemathesis.hook
def filter_failure(context, failure, case, response):
    refused = type(failure).__name__ == "RejectedPositiveData" and response.status_code == 400
    return not (refused and BEYOND_A_SCHEMA.search(message(response)))


@schemathesis.check
def status_is_listed(ctx, response, case):
    """Every answer is listed with its status: `default` is for what nobody thought of. No route lists its other methods."""
    listed = case.operation.definition.raw["responses"]
    if response.status_code != 405 and str(response.status_code) not in listed:
        raise AssertionError(f"{response.status_code} is not listed: {message(response)}")
