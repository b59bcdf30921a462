"""Reads the `id:` lines of event streams, which the SDK does not show.

The SDK sends any header (`ClientCallContext.service_parameters`), so `Last-Event-ID` goes through its own calls. It drops
the ids of the frames it reads, though; `Ids` looks at the bytes on their way through httpx and remembers them, in order:
the n-th id belongs to the n-th event the SDK yields.
"""

import httpx


class Ids(httpx.AsyncBaseTransport):
    """A transport that remembers the frame ids of the newest event stream."""

    def __init__(self):
        self._inner = httpx.AsyncHTTPTransport()
        self.seen = []

    async def handle_async_request(self, request):
        response = await self._inner.handle_async_request(request)
        if response.headers.get('content-type', '').startswith('text/event-stream'):
            self.seen = []
            response.stream = _Tee(response.stream, self.seen)
        return response

    def begins_at(self, event_id):
        """Whether the newest stream began with the state that this id stands for."""
        return self.seen[0] == event_id

    async def aclose(self):
        await self._inner.aclose()


class _Tee(httpx.AsyncByteStream):
    def __init__(self, inner, seen):
        self._inner = inner
        self._seen = seen
        self._rest = b''

    async def __aiter__(self):
        async for piece in self._inner:
            *lines, self._rest = (self._rest + piece).split(b'\n')
            for line in lines:
                if line.startswith(b'id:'):
                    self._seen.append(line[3:].strip().decode())
            yield piece

    async def aclose(self):
        await self._inner.aclose()
