"""Perdure's HTTP API inside a Starlette application that knows by itself who asks: its users are not Perdure's, and need no keys.

uvicorn examples.web.starlette_api:web
curl -H "X-User: ada" localhost:8000/flows/api/executions
"""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

import perdure.api
from examples.web.flows import app
from perdure.api.http_requests import ApiRequest
from perdure.core.errors import Unauthenticated
from perdure.service.callers import Caller, Role

USERS: dict[str, frozenset[Role]] = {"ada": frozenset(("viewer", "operator", "approver")), "grace": frozenset(("viewer",))}


async def caller_of(request: ApiRequest) -> Caller:
    """Says who asks. An application would look at its session here; this header is believed, which is for the example alone."""
    user = request.header("x-user")
    if user not in USERS:
        raise Unauthenticated("say who you are: send the header X-User")
    return Caller("default", f"user:{user}", USERS[user])


async def index(_: Request) -> PlainTextResponse:
    """Answers for the application itself."""
    return PlainTextResponse("the shop")


service = perdure.api.app(app, authenticate=caller_of)
web = Starlette(routes=[Route("/", index), Mount("/flows", service)], lifespan=service.lifespan)
