"""a2a-sdk 0.3 behind the calls of the scenarios. Input and output are JSON of the 0.3 wire."""

from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientHTTPError, A2AClientJSONRPCError
from a2a.types import Message, MessageSendConfiguration, TaskIdParams, TaskQueryParams

from refusal import Refused, wire


NAME = 'python-0.3'
BINDINGS = ['JSONRPC', 'HTTP+JSON']
CARD_PATH = '/.well-known/agent-card.json'
# What this version cannot read back, by binding: it takes `fileWithBytes` for base64 text once more encoded in base64.
LOSES = {'HTTP+JSON': ['file.bytes']}


async def card_of(http, base):
    return wire(await A2ACardResolver(http, base).get_agent_card())


async def connect(http, base, binding):
    return Session(
        *[
            await ClientFactory.connect(
                base,
                ClientConfig(httpx_client=http, streaming=streaming, supported_transports=[binding]),
            )
            for streaming in (False, True)
        ]
    )


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
