"""Calls over gRPC with stock stubs, as the lines of the standard input say: grpc_calls.py ORIGIN

Each line is JSON: `call` is the name of a method, `generation` is 1.0 or 0.3, `request` the message as JSON, or `raw` its bytes in
base64; `metadata` and `timeout` go with it. For each a line is printed: `messages`, `initial` and `trailing`; and of an error its
`code` and `message`, the `details` of its status as JSON, and `decoded`, the exception that the SDK makes of it. `unreadable` says why
a message cannot be read: grpcio itself hands out nothing in its place.
"""

import asyncio
import base64
import json
import sys

import grpc

from a2a.client.transports import grpc as current
from a2a.compat.v0_3 import a2a_v0_3_pb2, grpc_transport
from a2a.types import a2a_pb2
from google.protobuf import empty_pb2
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2  # noqa: F401 the details of a status are read with it
from grpc_status import rpc_status

import channel


SERVICES = {
    '1.0': a2a_pb2.DESCRIPTOR.services_by_name['A2AService'],
    '0.3': a2a_v0_3_pb2.DESCRIPTOR.services_by_name['A2AService'],
}
DECODERS = {'1.0': current._map_grpc_error, '0.3': grpc_transport._map_grpc_error}


async def answer(connection, row):
    service = SERVICES[row['generation']]
    method = service.methods_by_name.get(row['call'])
    kind = GetMessageClass(method.input_type) if method else empty_pb2.Empty
    reads = GetMessageClass(method.output_type).FromString if method else bytes
    sent = base64.b64decode(row['raw']) if 'raw' in row else ParseDict(row.get('request', {}), kind()).SerializeToString()
    path = row.get('path', f'/{service.full_name}/{row["call"]}')
    streams = method is not None and method.server_streaming
    stub = (connection.unary_stream if streams else connection.unary_unary)(path, bytes, bytes)
    version = {'a2a-version': '1.0'} if row['generation'] == '1.0' else {}
    metadata = {**version, **row.get('metadata', {})}
    call = stub(sent, metadata=[pair for pair in metadata.items() if pair[1] is not None], timeout=row.get('timeout', 30))
    told = {'messages': []}
    try:
        if streams:
            async for message in call:
                told['messages'].append(MessageToDict(reads(message)))
        else:
            told['messages'].append(MessageToDict(reads(await call)))
    except DecodeError as error:
        told['unreadable'] = str(error)
    except grpc.aio.AioRpcError as error:
        status = rpc_status.from_call(error)
        told |= {'code': error.code().name, 'message': error.details()}
        told['details'] = [MessageToDict(detail) for detail in status.details] if status else None
        try:
            DECODERS[row['generation']](error)
        except Exception as decoded:  # noqa: BLE001 whatever the SDK makes of it
            told['decoded'] = {'type': type(decoded).__name__, 'message': str(decoded)}
    text = lambda value: value if isinstance(value, str) else base64.b64encode(value).decode()
    if 'unreadable' not in told:
        told['initial'] = {name: text(value) for name, value in await call.initial_metadata() or ()}
        told['trailing'] = {name: text(value) for name, value in await call.trailing_metadata() or ()}
    return told


async def main(origin):
    # A message may be larger here than the server takes, so that it is the server that refuses it.
    options = [('grpc.max_send_message_length', -1), ('grpc.max_receive_message_length', -1)]
    async with grpc.aio.insecure_channel(channel.address(origin), options=options) as connection:
        for line in sys.stdin:
            print(json.dumps(await answer(connection, json.loads(line))), flush=True)


asyncio.run(main(*sys.argv[1:]))
