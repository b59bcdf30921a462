"""One call of the Python SDK (a2a-sdk 1.x): tool.py ORIGIN BINDING open STEPS | watch ID | get ID | cancel ID | answer ID TEXT

Prints what came, one JSON value a line.
"""

import asyncio
import json
import sys

from a2a.types.a2a_pb2 import CancelTaskRequest, GetTaskRequest, SubscribeToTaskRequest
from google.protobuf.json_format import MessageToDict

from scenarios import World, script, send, text


def show(thing):
    print(json.dumps(MessageToDict(thing)), flush=True)


async def main(origin, binding, verb, what, words=None):
    world = World(origin, binding)
    quiet = await world.client('scripted', streaming=False)
    if verb == 'open':
        show(await send(quiet, script(json.loads(what)), return_immediately=True))
    elif verb == 'watch':
        streaming = await world.client('scripted')
        async for event in streaming.subscribe(SubscribeToTaskRequest(id=what)):
            show(event)
    elif verb == 'get':
        show(await quiet.get_task(GetTaskRequest(id=what)))
    elif verb == 'cancel':
        show(await quiet.cancel_task(CancelTaskRequest(id=what)))
    elif verb == 'answer':
        show(await send(quiet, text(words, task_id=what)))
    await world.http.aclose()


asyncio.run(main(*sys.argv[1:]))
