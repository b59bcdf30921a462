"""Shared by all adapters: one exception for a refusal, and the wire form of the SDK's objects."""


class Refused(Exception):
    """The server said no: a JSON-RPC code, or the HTTP status where that is all the SDK tells."""

    def __init__(self, code=None, status=None, message=''):
        super().__init__(f'refused with code {code}, status {status}: {message}')
        self.code = code
        self.status = status
        self.message = message


def wire(thing):
    """A pydantic object as it stands on the wire."""
    return thing.model_dump(mode='json', by_alias=True, exclude_none=True)
