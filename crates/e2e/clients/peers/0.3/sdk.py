"""The parts of the A2A 0.3 SDK that a peer needs."""

from a2a.grpc import a2a_pb2_grpc
from a2a.server.apps import A2ARESTFastAPIApplication, A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentSkill, InvalidParamsError, Part, TextPart
from a2a.utils import new_task as new_task_from_user_message
from a2a.utils.errors import ServerError
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route


def text_part(text):
    return Part(root=TextPart(text=text))


def new_task(context):
    task = new_task_from_user_message(context.message)
    task.id, task.context_id = context.task_id, context.context_id
    return task


def invalid_params(why):
    return ServerError(InvalidParamsError(message=why))


def card(url, binding):
    return AgentCard(
        name="peer",
        description="an agent of 0.3",
        version="1",
        url=url,
        preferred_transport=binding,
        protocol_version="0.3.0",
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="act", name="act", description="acts", tags=["test"])],
    )


def add_service(server, address, agent):
    handler = DefaultRequestHandler(agent, InMemoryTaskStore())
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(card(address, "GRPC"), handler), server)


def app(base, agent, grpc_address):
    mounts = []
    if grpc_address:
        grpc_card = card(grpc_address, "GRPC").model_dump(mode="json", by_alias=True, exclude_none=True)
        mounts.append(Route("/grpc/.well-known/agent-card.json", lambda request: JSONResponse(grpc_card)))
    for place, binding, kind in [
        ("/rpc", "JSONRPC", A2AStarletteApplication),
        ("/rest", "HTTP+JSON", A2ARESTFastAPIApplication),
    ]:
        # The JSON-RPC endpoint of a mounted application is the place with a slash.
        about = card(base + place + ("/" if binding == "JSONRPC" else ""), binding)
        served = kind(about, DefaultRequestHandler(agent, InMemoryTaskStore()))
        mounts.append(Mount(place, app=served.build()))
    return Starlette(routes=mounts)
