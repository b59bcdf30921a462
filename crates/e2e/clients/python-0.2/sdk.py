"""a2a-sdk 0.2 behind the calls of the scenarios. Input and output are JSON of the 0.2 wire.

The client of this version has no call for `tasks/resubscribe`, but has its types: those are sent and read here.
"""

import json
import uuid

from a2a.client import A2ACardResolver, A2AClient
from a2a.client.errors import A2AClientHTTPError
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    SendMessageRequest,
    SendStreamingMessageRequest,
    SendStreamingMessageResponse,
    TaskResubscriptionRequest,
)
from httpx_sse import aconnect_sse

from refusal import Refused, wire


NAME = 'python-0.2'
BINDINGS = ['JSONRPC']
CARD_PATH = '/.well-known/agent.json'


async def card_of(http, base):
    return wire(await A2ACardResolver(http, base).get_agent_card())


async def connect(http, base, binding):
    assert binding == 'JSONRPC', 'the only binding of this version'
    return Session(http, await A2AClient.get_client_from_agent_card_url(http, base))


class Session:
    def __init__(self, http, client):
        self._http = http
        self._client = client

    async def send(self, message, **configuration):
        # Required in this version.
        configuration.setdefault('acceptedOutputModes', ['text/plain'])
        params = {'message': message, 'configuration': configuration}
        return _result(await self._client.send_message(_request(SendMessageRequest, 'message/send', params)))

    async def stream(self, message):
        params = {'message': message}
        try:
            request = _request(SendStreamingMessageRequest, 'message/stream', params)
            async for event in self._client.send_message_streaming(request):
                yield _result(event)
        except A2AClientHTTPError as error:
            raise Refused(status=error.status_code, message=error.message) from error

    async def get(self, task, history=None):
        params = {'id': task} if history is None else {'id': task, 'historyLength': history}
        return _result(await self._client.get_task(_request(GetTaskRequest, 'tasks/get', params)))

    async def cancel(self, task):
        return _result(await self._client.cancel_task(_request(CancelTaskRequest, 'tasks/cancel', {'id': task})))

    async def resubscribe(self, task):
        request = wire(_request(TaskResubscriptionRequest, 'tasks/resubscribe', {'id': task}))
        async with aconnect_sse(self._http, 'POST', self._client.url, json=request, timeout=None) as source:
            async for frame in source.aiter_sse():
                yield _result(SendStreamingMessageResponse.model_validate(json.loads(frame.data)))


def _request(kind, method, params):
    return kind.model_validate({'jsonrpc': '2.0', 'id': str(uuid.uuid4()), 'method': method, 'params': params})


def _result(response):
    answer = wire(response)
    if 'error' in answer:
        raise Refused(code=answer['error']['code'], message=answer['error']['message'])
    return answer['result']
