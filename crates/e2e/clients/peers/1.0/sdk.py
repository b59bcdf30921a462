"""The parts of the A2A 1.0 SDK that a peer needs."""

from a2a.helpers import new_task_from_user_message
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part, a2a_pb2_grpc
from a2a.utils.errors import InvalidParamsError
from starlette.applications import Starlette


def text_part(text):
    return Part(text=text)


def new_task(context):
    task = new_task_from_user_message(context.message)
    task.id, task.context_id = context.task_id, context.context_id
    return task


def invalid_params(why):
    return InvalidParamsError(why)


def card(url, binding):
    return AgentCard(
        name="peer",
        description="an agent of 1.0",
        version="1",
        supported_interfaces=[AgentInterface(url=url, protocol_binding=binding, protocol_version="1.0")],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="act", name="act", description="acts", tags=["test"])],
    )


def add_service(server, address, agent):
    handler = DefaultRequestHandler(agent, InMemoryTaskStore(), card(address, "GRPC"))
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), server)


def app(base, agent, grpc_address):
    routes = []
    if grpc_address:
        routes += create_agent_card_routes(card(grpc_address, "GRPC"), card_url="/grpc/.well-known/agent-card.json")
    for place, binding in [("/rpc", "JSONRPC"), ("/rest", "HTTP+JSON")]:
        about = card(base + place, binding)
        handler = DefaultRequestHandler(agent, InMemoryTaskStore(), about)
        routes += create_agent_card_routes(about, card_url=f"{place}/.well-known/agent-card.json")
        if binding == "JSONRPC":
            routes += create_jsonrpc_routes(handler, place)
        else:
            routes += create_rest_routes(handler, path_prefix=place)
    return Starlette(routes=routes)
