"""The gRPC binding of the SDK (a2a-sdk 1.x): a card that names the server and the agent, and the ids of a stream's messages.

A stream's initial metadata has the id of its first message; the id of a later one is the first id and the number of messages after it.
"""

import contextlib

import grpc

from a2a.client import ClientCallContext, ClientConfig, ClientFactory
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface


def address(origin):
    return origin.removeprefix('http://')


def plain_or_secure(origin):
    """A channel without an SDK. The authorities of one over TLS are those of GRPC_DEFAULT_SSL_ROOTS_FILE_PATH."""
    if origin.startswith('https://'):
        return grpc.secure_channel(origin.removeprefix('https://'), grpc.ssl_channel_credentials())
    return grpc.insecure_channel(address(origin))


def card(origin, agent, version='1.0'):
    """What a client has to know of an agent. The SDK's clients of 1.0 put the tenant into every request."""
    tenant = f'a2a/{agent}' if agent and version == '1.0' else ''
    interface = AgentInterface(url=address(origin), protocol_binding='GRPC', protocol_version=version, tenant=tenant)
    return AgentCard(
        name='any',
        supported_interfaces=[interface],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=True),
    )


def connect(origin, agent, streaming=True, version='1.0', interceptors=(), options=(), compression=None):
    config = ClientConfig(
        streaming=streaming,
        supported_protocol_bindings=['GRPC'],
        grpc_channel_factory=lambda url: grpc.aio.insecure_channel(
            url, interceptors=list(interceptors), options=list(options), compression=compression
        ),
    )
    return ClientFactory(config).create(card(origin, agent, version))


def with_metadata(timeout=None, **metadata):
    """Metadata of one call; an underscore stands for a hyphen."""
    sent = {name.replace('_', '-'): value for name, value in metadata.items()}
    return ClientCallContext(service_parameters=sent, timeout=timeout)


class Ids(grpc.aio.UnaryStreamClientInterceptor):
    """Remembers the ids of the newest stream's messages."""

    def __init__(self):
        self.seen = []
        self.trailing = {}

    async def intercept_unary_stream(self, continuation, details, request):
        call = await continuation(details, request)
        self.seen, self.trailing = [], {}
        return self._noted(call, self.seen)

    async def _noted(self, call, seen):
        # The call hangs on this iterator: who leaves it, closes the stream.
        with contextlib.ExitStack() as leaving:
            leaving.callback(call.cancel)
            async for message in call:
                if not seen:
                    # A message that is no task's has none.
                    first = dict(await call.initial_metadata()).get('a2a-event-id')
                seen.append(f'{first}+{len(seen)}' if first and seen else first)
                yield message
            self.trailing = dict(await call.trailing_metadata())

    def begins_at(self, event_id):
        """Whether the newest stream began with the state that this id stands for. An id of this binding may count messages."""
        return self.seen[0].rpartition('.')[0] == event_id.rpartition('.')[0]

    async def aclose(self):
        pass
