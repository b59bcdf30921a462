"""a2a-sdk 0.3 behind the calls of the scenarios. Input and output are JSON of the 0.3 wire."""

import grpc

from a2a.client import A2ACardResolver, ClientConfig, ClientFactory, minimal_agent_card
from a2a.client.errors import A2AClientHTTPError, A2AClientJSONRPCError
from a2a.types import Message, MessageSendConfiguration, TaskIdParams, TaskQueryParams

from refusal import Refused, wire


NAME = 'python-0.3'
BINDINGS = ['JSONRPC', 'HTTP+JSON', 'GRPC']
CARD_PATH = '/.well-known/agent-card.json'
# What this version cannot read back, by binding: it takes `fileWithBytes` for base64 text once more encoded in base64.
LOSES = {'HTTP+JSON': ['file.bytes'], 'GRPC': ['file.bytes']}


async def card_of(http, base):
    return wire(await A2ACardResolver(http, base).get_agent_card())


# The names that begin the words of an error over gRPC, which has no other place for them in 0.3.
CODES = {
    'TaskNotFoundError': -32001,
    'TaskNotCancelableError': -32002,
    'PushNotificationNotSupportedError': -32003,
    'UnsupportedOperationError': -32004,
    'InvalidParamsError': -32602,
}


async def connect(http, base, binding):
    if binding == 'GRPC':
        return Session(grpc_client(base, streaming=False), grpc_client(base, streaming=True))
    return Session(
        *[
            await ClientFactory.connect(
                base,
                ClientConfig(httpx_client=http, streaming=streaming, supported_transports=[binding]),
            )
            for streaming in (False, True)
        ]
    )


def grpc_client(base, streaming, options=()):
    """A client of the agent at `base`. Requests of 0.3 have no tenant: metadata name the agent, which the SDK leaves to its channel."""
    origin, _, agent = base.partition('/a2a/')
    named = [Named('x-a2a-agent', agent)] if agent else []
    card = minimal_agent_card(origin.removeprefix('http://'), ['GRPC'])
    card.capabilities.streaming = True
    config = ClientConfig(
        streaming=streaming,
        supported_transports=['GRPC'],
        grpc_channel_factory=lambda url: grpc.aio.insecure_channel(
            url, interceptors=[kind(one) for one in named for kind in (Unary, Streaming)], options=list(options)
        ),
    )
    return ClientFactory(config).create(card)


class Named(tuple):
    """A name and a value for the metadata of every call."""

    def __new__(cls, name, value):
        return super().__new__(cls, (name, value))

    def on(self, details):
        return details._replace(metadata=grpc.aio.Metadata(*(details.metadata or ()), self))


class Unary(grpc.aio.UnaryUnaryClientInterceptor):
    def __init__(self, named):
        self._named = named

    async def intercept_unary_unary(self, continuation, details, request):
        return await continuation(self._named.on(details), request)


class Streaming(grpc.aio.UnaryStreamClientInterceptor):
    def __init__(self, named):
        self._named = named

    async def intercept_unary_stream(self, continuation, details, request):
        return await continuation(self._named.on(details), request)


class Session:
    def __init__(self, quiet, streaming):
        self._quiet = quiet
        self._streaming = streaming

    async def send(self, message, **configuration):
        options = MessageSendConfiguration.model_validate(configuration) if configuration else None
        with refusals():
            answers = [a async for a in self._quiet.send_message(Message.model_validate(message), configuration=options)]
        assert len(answers) == 1, answers
        return wire(answers[0][0] if isinstance(answers[0], tuple) else answers[0])

    async def stream(self, message):
        with refusals():
            async for event in self._streaming.send_message(Message.model_validate(message)):
                yield _event(event)

    async def get(self, task, history=None):
        with refusals():
            return wire(await self._quiet.get_task(TaskQueryParams(id=task, history_length=history)))

    async def cancel(self, task):
        with refusals():
            return wire(await self._quiet.cancel_task(TaskIdParams(id=task)))

    async def resubscribe(self, task):
        with refusals():
            async for event in self._streaming.resubscribe(TaskIdParams(id=task)):
                yield _event(event)


def _event(event):
    """The SDK hands its own fold out beside each update; only the update came over the wire."""
    if isinstance(event, tuple):
        task, update = event
        return wire(update if update is not None else task)
    return wire(event)


class refusals:
    """Turns the SDK's errors into ours."""

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if isinstance(error, A2AClientJSONRPCError):
            raise Refused(code=error.error.code, message=error.error.message) from error
        if isinstance(error, A2AClientHTTPError):
            raise Refused(status=error.status_code, message=error.message) from error
        if isinstance(error, grpc.aio.AioRpcError):
            name, _, words = error.details().partition(': ')
            raise Refused(code=CODES.get(name), message=words) from error
