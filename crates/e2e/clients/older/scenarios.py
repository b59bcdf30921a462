"""The Python SDKs before 1.0 against a running server: scenarios.py ORIGIN JSONRPC|HTTP+JSON|GRPC

`sdk`, the adapter of one version, is found on PYTHONPATH. Every scenario is reported by name; the exit code is 1 when
one failed. A name as third argument runs only that one.
"""

import asyncio
import base64
import sys
import traceback
import uuid

import httpx

import sdk

from fold import Fold, text_of
from refusal import Refused


CHUNKS = [
    {'status': 'working', 'text': 'counting'},
    {'artifact': {'name': 'count', 'parts': [{'text': 'abc '}]}, 'chunks': 12, 'every_ms': 25},
    {'complete': 'counted'},
]
NOBODY = '019aa000-0000-7000-8000-00000000abcd'

# What a refusal is called, by JSON-RPC code and by HTTP status.
NOT_FOUND = (-32001, 404)
NOT_CANCELABLE = (-32002, 409)
UNSUPPORTED = (-32004, 501)
PARAMS = (-32602, 422)


class World:
    """A server, and the SDK's clients of its agents over one binding."""

    def __init__(self, origin, binding):
        self.origin = origin
        self.binding = binding
        self.asked = []
        self.http = httpx.AsyncClient(timeout=30, event_hooks={'request': [self._note]})

    async def _note(self, request):
        self.asked.append(request.url.path)

    async def client(self, agent):
        return await sdk.connect(self.http, f'{self.origin}/a2a/{agent}', self.binding)


def said(parts, **members):
    return {'kind': 'message', 'messageId': str(uuid.uuid4()), 'role': 'user', 'parts': parts, **members}


def text(words, **members):
    return said([{'kind': 'text', 'text': words}], **members)


def script(steps, **members):
    return said([{'kind': 'data', 'data': {'script': steps}}], **members)


def state_of(task):
    return task['status']['state']


async def refused(expected, call, told=True):
    """A refusal of this kind. Where the SDK swallows the server's words (`told` is false), any refusal will do."""
    try:
        if hasattr(call, '__aiter__'):
            async for event in call:
                raise AssertionError(f'accepted with {event}')
            raise AssertionError('a stream without an event')
        raise AssertionError(f'accepted with {await call}')
    except Refused as refusal:
        if told:
            assert refusal.code == expected[0] or refusal.status == expected[1], refusal
            assert refusal.message, 'a refusal says why'


async def discover(world):
    origin = await sdk.card_of(world.http, world.origin)
    assert world.asked == [sdk.CARD_PATH], 'the path of this version'
    echo = await sdk.card_of(world.http, f'{world.origin}/a2a/echo')
    assert world.asked[1:] == [f'/a2a/echo{sdk.CARD_PATH}'], world.asked
    assert origin == echo, 'the origin has the card of the default agent'
    assert echo['capabilities']['streaming'] is True
    assert echo['name'] and echo['version'] and echo['skills'] and echo['protocolVersion'].startswith('0.')
    assert echo['url'] == f'{world.origin}/a2a/echo' and echo['preferredTransport'] == 'JSONRPC'
    # Where cards list gRPC, its address is that of the connection.
    transports = {(i['transport'], i['url']) for i in echo['additionalInterfaces'] if i['transport'] != 'GRPC'}
    assert transports == {(t, echo['url']) for t in ('JSONRPC', 'HTTP+JSON')}, transports


async def send_and_get(world):
    client = await world.client('echo')
    parts = [
        {'kind': 'text', 'text': 'hello', 'metadata': {'m': 'x'}},
        {'kind': 'file', 'file': {'uri': 'https://example.com/a.png', 'mimeType': 'image/png', 'name': 'a.png'}},
        {'kind': 'file', 'file': {'bytes': base64.b64encode(bytes(range(256))).decode(), 'mimeType': 'image/gif'}},
        {'kind': 'data', 'data': {'a': [1, None, 'x'], 'b': {}}},
    ]
    if 'file.bytes' in getattr(sdk, 'LOSES', {}).get(world.binding, []):
        del parts[2]
    message = said(parts, metadata={'of': 'message'})
    task = await client.send(message)
    assert task['kind'] == 'task' and state_of(task) == 'completed', task
    assert task['artifacts'][0]['parts'] == parts, task['artifacts']
    got = await client.get(task['id'])
    assert got['artifacts'] == task['artifacts'] and got['status'] == task['status']
    assert got['contextId'] == task['contextId'] and got['contextId']
    assert got['history'][0]['messageId'] == message['messageId'], got
    assert got['history'][0]['parts'] == parts and got['history'][0]['metadata'] == {'of': 'message'}
    one = await client.get(task['id'], history=1)
    assert len(one['history']) == 1, one


async def return_at_once(world):
    client = await world.client('scripted')
    task = await client.send(script([{'sleep_ms': 300}, {'complete': 'done'}]), blocking=False)
    assert state_of(task) in ('submitted', 'working'), task
    async for event in client.resubscribe(task['id']):
        last = event
    assert last['final'] is True and last['status']['state'] == 'completed', last


async def stream(world):
    client = await world.client('scripted')
    events = [event async for event in client.stream(script(CHUNKS))]
    fold = Fold(events[0])
    for event in events[1:]:
        fold.take(event)
    assert fold.state == 'completed', fold
    assert list(fold.artifacts.values()) == ['abc ' * 12], fold
    chunks = [e for e in events if e['kind'] == 'artifact-update']
    assert [c.get('append', False) for c in chunks] == [False] + [True] * 11
    assert [c.get('lastChunk', False) for c in chunks] == [False] * 11 + [True]
    finals = [e.get('final', False) for e in events if e['kind'] == 'status-update']
    assert finals == [False] * (len(finals) - 1) + [True], finals
    assert events[-1]['kind'] == 'status-update', 'the last event ends the stream'
    assert fold == Fold(await client.get(fold.id))


async def cancel(world):
    client = await world.client('scripted')
    hanging = [{'status': 'working', 'text': 'waiting'}, {'hang': True}]
    task = await client.send(script(hanging), blocking=False)
    assert state_of(task) in ('submitted', 'working'), task
    canceled = await client.cancel(task['id'])
    assert canceled['id'] == task['id'] and state_of(canceled) == 'canceled', canceled
    await refused(NOT_CANCELABLE, client.cancel(task['id']))


async def resubscribe(world):
    client = await world.client('scripted')
    steps = [{'input': 'ready?'}, {'artifact': {'name': 'a', 'parts': [{'text': 'go '}]}, 'chunks': 3}, {'complete': 'done'}]
    task = await client.send(script(steps))
    assert state_of(task) == 'input-required', task
    folds, finals, first = [], [], asyncio.Event()

    async def follow():
        async for event in client.resubscribe(task['id']):
            if folds:
                folds[0].take(event)
            else:
                folds.append(Fold(event))
            finals.append(event.get('final', False))
            first.set()

    follower = asyncio.create_task(follow())
    await asyncio.wait_for(first.wait(), 10)
    assert folds[0].state == 'input-required' and not follower.done()
    await client.send(text('yes', taskId=task['id']))
    await asyncio.wait_for(follower, 10)
    assert folds[0] == Fold(await client.get(task['id'])), folds
    assert list(folds[0].artifacts.values()) == ['go go go '], folds
    assert finals[-1] is True and not any(finals[:-1]), finals


async def leave_and_come_back(world):
    """A dropped stream cancels nothing, and a second one has it all."""
    client = await world.client('scripted')
    events = client.stream(script(CHUNKS))
    first = await anext(events)
    await events.aclose()
    fold = None
    async for event in client.resubscribe(first['id']):
        if fold is None:
            fold = Fold(event)
        else:
            fold.take(event)
    assert fold.state == 'completed' and list(fold.artifacts.values()) == ['abc ' * 12], fold


async def answer_a_question(world):
    client = await world.client('scripted')
    task = await client.send(script([{'input': 'name?'}, {'input': 'age?'}, {'complete': 'thanks'}]))
    assert state_of(task) == 'input-required', task
    assert text_of(task['status']['message']['parts']) == 'name?', task
    task = await client.send(text('Ada', taskId=task['id']))
    assert state_of(task) == 'input-required', task
    done = await client.send(text('36', taskId=task['id'], contextId=task['contextId']))
    assert done['id'] == task['id'] and state_of(done) == 'completed', done
    assert text_of(done['status']['message']['parts']) == 'thanks', done


async def answer_in_a_stream(world):
    client = await world.client('scripted')
    events = [e async for e in client.stream(script([{'input': 'name?'}, {'echo': True}, {'complete': 'thanks'}]))]
    assert state_of(events[-1]) == 'input-required' and events[-1]['final'] is True, events
    task = events[0]['id']
    more = [e async for e in client.stream(text('Ada', taskId=task))]
    fold = Fold(more[0])
    for event in more[1:]:
        fold.take(event)
    assert fold.id == task and fold.state == 'completed' and list(fold.artifacts.values()) == ['Ada'], fold


async def direct_message(world):
    client = await world.client('scripted')
    answer = await client.send(script([{'message': 'just so'}]))
    assert answer['kind'] == 'message' and answer['role'] == 'agent', answer
    assert text_of(answer['parts']) == 'just so'
    assert answer['contextId'] and not answer.get('taskId'), answer
    events = [event async for event in client.stream(script([{'message': 'just so'}]))]
    assert [e['kind'] for e in events] == ['message'], events


async def failures(world):
    client = await world.client('scripted')
    failed = await client.send(script([{'fail': 'no luck'}]))
    assert state_of(failed) == 'failed' and text_of(failed['status']['message']['parts']) == 'no luck', failed
    rejected = await client.send(script([{'reject': 'not for me'}]))
    assert state_of(rejected) == 'rejected', rejected
    asks = await client.send(script([{'auth': 'sign in'}]))
    assert state_of(asks) == 'auth-required', asks


async def errors(world):
    client = await world.client('scripted')
    # Over HTTP+JSON the SDK never looks at the status of a subscription.
    told = world.binding != 'HTTP+JSON'
    await refused(NOT_FOUND, client.get(NOBODY))
    await refused(NOT_FOUND, client.cancel(NOBODY))
    await refused(NOT_FOUND, client.resubscribe(NOBODY), told=told)
    await refused(NOT_FOUND, client.send(text('hi', taskId=NOBODY)))
    await refused(NOT_FOUND, client.stream(text('hi', taskId=NOBODY)))
    done = await client.send(text('done'))
    await refused(UNSUPPORTED, client.send(text('more', taskId=done['id'])))
    await refused(UNSUPPORTED, client.resubscribe(done['id']), told=told)
    await refused(NOT_CANCELABLE, client.cancel(done['id']))
    await refused(PARAMS, client.send(text('hi', contextId='another', taskId=done['id'])))


SCENARIOS = [
    discover,
    send_and_get,
    return_at_once,
    stream,
    cancel,
    resubscribe,
    leave_and_come_back,
    answer_a_question,
    answer_in_a_stream,
    direct_message,
    failures,
    errors,
]


async def main(origin, binding, only=None):
    assert binding in sdk.BINDINGS, f'{sdk.NAME} has no {binding}'
    failed = 0
    for scenario in SCENARIOS:
        if only and scenario.__name__ != only:
            continue
        name = f'{sdk.NAME} {binding} {scenario.__name__}'
        world = World(origin, binding)
        try:
            await asyncio.wait_for(scenario(world), 15)
            print(f'ok {name}')
        except Exception:  # noqa: BLE001 a report names every scenario, whatever broke it
            failed += 1
            print(f'FAILED {name}\n{traceback.format_exc()}')
        finally:
            await world.http.aclose()
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(asyncio.run(main(*sys.argv[1:])))
