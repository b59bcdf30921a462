"""One call of a Python SDK before 1.0: tool.py ORIGIN BINDING open STEPS | watch ID | get ID | cancel ID | answer ID TEXT

Prints what came, one JSON value a line.
"""

import asyncio
import json
import sys

from scenarios import World, script, text


def show(thing):
    print(json.dumps(thing), flush=True)


async def main(origin, binding, verb, what, words=None):
    world = World(origin, binding)
    client = await world.client('scripted')
    if verb == 'open':
        show(await client.send(script(json.loads(what)), blocking=False))
    elif verb == 'watch':
        async for event in client.resubscribe(what):
            show(event)
    elif verb == 'get':
        show(await client.get(what))
    elif verb == 'cancel':
        show(await client.cancel(what))
    elif verb == 'answer':
        show(await client.send(text(words, taskId=what)))
    await world.http.aclose()


asyncio.run(main(*sys.argv[1:]))
