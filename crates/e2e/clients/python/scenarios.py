"""The Python SDK (a2a-sdk 1.x) against a running server: scenarios.py ORIGIN JSONRPC|HTTP+JSON|GRPC

Every scenario is reported by name; the exit code is 1 when one failed. A name as third argument runs only that one.
"""

import asyncio
import sys
import traceback
import uuid

import httpx

from a2a.client import ClientCallContext, ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils.errors import (
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf.json_format import ParseDict

import channel

from fold import Fold
from wire import Ids


CHUNKS = [
    {'status': 'working', 'text': 'counting'},
    {'artifact': {'name': 'count', 'parts': [{'text': 'abc '}]}, 'chunks': 12, 'every_ms': 25},
    {'complete': 'counted'},
]
NOBODY = '019aa000-0000-7000-8000-00000000abcd'


class World:
    """A server, and the SDK's clients of its agents over one binding."""

    def __init__(self, origin, binding):
        self.origin = origin
        self.binding = binding
        self.ids = channel.Ids() if binding == 'GRPC' else Ids()
        self.http = httpx.AsyncClient(transport=None if binding == 'GRPC' else self.ids, timeout=30)

    async def client(self, agent, streaming=True):
        """A client made the way the SDK advises: from the agent's card."""
        if self.binding == 'GRPC':
            return channel.connect(self.origin, agent, streaming, interceptors=[self.ids])
        factory = ClientFactory(
            ClientConfig(
                httpx_client=self.http,
                streaming=streaming,
                supported_protocol_bindings=[self.binding],
            )
        )
        return await factory.create_from_url(f'{self.origin}/a2a/{agent}')


def text(words, **members):
    return Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text=words)], **members)


def script(steps, **members):
    part = ParseDict({'data': {'script': steps}}, Part())
    return Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[part], **members)


async def send(client, message, **configuration):
    """A send without streaming: the task, or the message."""
    request = SendMessageRequest(message=message)
    for name, value in configuration.items():
        setattr(request.configuration, name, value)
    answers = [answer async for answer in client.send_message(request)]
    assert len(answers) == 1, answers
    return getattr(answers[0], answers[0].WhichOneof('payload'))


async def refused(error, call):
    try:
        if hasattr(call, '__aiter__'):
            async for event in call:
                raise AssertionError(f'accepted with {event}')
        else:
            raise AssertionError(f'accepted with {await call}')
    except error as refusal:
        assert str(refusal), 'a refusal says why'


def resume_at(event_id):
    return ClientCallContext(service_parameters={'Last-Event-ID': event_id})


async def discover(world):
    origin = await A2ACardResolver(world.http, world.origin).get_agent_card()
    echo = await A2ACardResolver(world.http, f'{world.origin}/a2a/echo').get_agent_card()
    assert origin == echo, 'the origin has the card of the default agent'
    assert echo.capabilities.streaming
    assert echo.name and echo.version and echo.skills
    bindings = {(i.protocol_binding, i.protocol_version) for i in echo.supported_interfaces}
    assert {('JSONRPC', '1.0'), ('HTTP+JSON', '1.0')} <= bindings, bindings


async def send_and_get(world):
    client = await world.client('echo', streaming=False)
    message = text('hello')
    message.parts.add(url='https://example.com/a.png', media_type='image/png', filename='a.png')
    message.parts.add(raw=bytes(range(256)), media_type='application/octet-stream')
    message.parts.append(ParseDict({'data': {'a': [1, None, 'x'], 'b': {}}}, Part()))
    task = await send(client, message)
    assert task.status.state == TaskState.TASK_STATE_COMPLETED, task
    assert list(task.artifacts[0].parts) == list(message.parts), task
    got = await client.get_task(GetTaskRequest(id=task.id))
    assert got.artifacts == task.artifacts and got.status == task.status
    assert got.context_id == task.context_id and got.context_id
    assert [m.message_id for m in got.history][:1] == [message.message_id], got
    bare = await client.get_task(GetTaskRequest(id=task.id, history_length=0))
    assert not bare.history


async def stream(world):
    client = await world.client('scripted')
    fold = Fold()
    events = []
    async for event in client.send_message(SendMessageRequest(message=script(CHUNKS))):
        events.append(event)
        fold.take(event)
    assert events[0].WhichOneof('payload') == 'task', events[0]
    assert len(world.ids.seen) == len(events) and all(world.ids.seen), 'every frame has an id'
    assert fold.state == TaskState.TASK_STATE_COMPLETED
    assert list(fold.artifacts.values()) == ['abc ' * 12], fold
    chunks = [e.artifact_update for e in events if e.WhichOneof('payload') == 'artifact_update']
    assert [c.append for c in chunks] == [False] + [True] * 11
    assert [c.last_chunk for c in chunks] == [False] * 11 + [True]
    assert fold == Fold.of_task(await client.get_task(GetTaskRequest(id=fold.id)))


async def list_tasks(world):
    client = await world.client('echo', streaming=False)
    context = str(uuid.uuid4())
    made = [await send(client, text(str(n), context_id=context)) for n in range(5)]
    found, token = [], ''
    while True:
        page = await client.list_tasks(ListTasksRequest(context_id=context, page_size=2, page_token=token))
        assert page.total_size == 5, page
        assert not any(task.artifacts for task in page.tasks)
        found += [task.id for task in page.tasks]
        token = page.next_page_token
        if not token:
            break
    assert found == [task.id for task in reversed(made)], 'newest first, each once'
    working = await client.list_tasks(ListTasksRequest(context_id=context, status=TaskState.TASK_STATE_WORKING))
    assert working.total_size == 0 and not working.tasks
    whole = await client.list_tasks(ListTasksRequest(context_id=context, include_artifacts=True, history_length=1))
    assert [task.artifacts[0].parts[0].text for task in whole.tasks] == ['4', '3', '2', '1', '0']


async def cancel(world):
    client = await world.client('scripted', streaming=False)
    hanging = [{'status': 'working', 'text': 'waiting'}, {'hang': True}]
    task = await send(client, script(hanging), return_immediately=True)
    assert task.status.state in (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING)
    canceled = await client.cancel_task(CancelTaskRequest(id=task.id))
    assert canceled.status.state == TaskState.TASK_STATE_CANCELED, canceled
    await refused(TaskNotCancelableError, client.cancel_task(CancelTaskRequest(id=task.id)))


async def subscribe(world):
    client = await world.client('scripted')
    quiet = await world.client('scripted', streaming=False)
    steps = [{'input': 'ready?'}, {'artifact': {'name': 'a', 'parts': [{'text': 'go '}]}, 'chunks': 3}, {'complete': 'done'}]
    task = await send(quiet, script(steps))
    assert task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED, task

    fold, first = Fold(), asyncio.Event()

    async def follow():
        async for event in client.subscribe(SubscribeToTaskRequest(id=task.id)):
            fold.take(event)
            first.set()

    follower = asyncio.create_task(follow())
    await asyncio.wait_for(first.wait(), 10)
    assert fold.state == TaskState.TASK_STATE_INPUT_REQUIRED and not follower.done()
    await send(quiet, text('yes', task_id=task.id))
    await asyncio.wait_for(follower, 10)
    assert fold == Fold.of_task(await client.get_task(GetTaskRequest(id=task.id))), fold
    assert list(fold.artifacts.values()) == ['go go go '], fold


async def leave_and_come_back(world, back):
    """Reads half a stream, drops the connection, and comes back by `back` with the id of the last frame."""
    client = await world.client('scripted')
    request = SendMessageRequest(message=script(CHUNKS))
    left, count = Fold(), 0
    events = client.send_message(request)
    async for event in events:
        left.take(event)
        count += 1
        if left.artifacts and count >= 5:
            break
    await events.aclose()
    event_id = world.ids.seen[count - 1]
    assert event_id.rpartition('.')[0] == left.id, event_id

    whole, resumed = Fold(), left
    index = 0
    async for event in back(client, request, left.id, resume_at(event_id)):
        whole.take(event)
        if index == 0:
            assert event.WhichOneof('payload') == 'task', event
            assert whole == left, f'the task as it was left: {whole} {left}'
            assert world.ids.begins_at(event_id), (world.ids.seen, event_id)
            resumed = Fold.of_task(event.task)
        else:
            resumed.take(event)
        index += 1
    assert whole == resumed
    assert whole.state == TaskState.TASK_STATE_COMPLETED
    assert list(whole.artifacts.values()) == ['abc ' * 12], whole
    assert whole == Fold.of_task(await client.get_task(GetTaskRequest(id=left.id)))
    # The task has settled; the same id still brings the same end.
    again = Fold()
    async for event in back(client, request, left.id, resume_at(event_id)):
        again.take(event)
    assert again == whole


async def resume_by_subscribing(world):
    await leave_and_come_back(
        world,
        lambda client, request, task, context: client.subscribe(SubscribeToTaskRequest(id=task), context=context),
    )


async def resume_by_sending_again(world):
    await leave_and_come_back(
        world,
        lambda client, request, task, context: client.send_message(request, context=context),
    )


async def answer_a_question(world):
    client = await world.client('scripted', streaming=False)
    steps = [{'input': 'name?'}, {'input': 'age?'}, {'complete': 'thanks'}]
    task = await send(client, script(steps))
    assert task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED, task
    assert task.status.message.parts[0].text == 'name?', task
    task = await send(client, text('Ada', task_id=task.id))
    assert task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED, task
    done = await send(client, text('36', task_id=task.id, context_id=task.context_id))
    assert done.id == task.id and done.status.state == TaskState.TASK_STATE_COMPLETED, done
    assert done.status.message.parts[0].text == 'thanks', done


async def direct_message(world):
    client = await world.client('scripted', streaming=False)
    answer = await send(client, script([{'message': 'just so'}]))
    assert isinstance(answer, Message), answer
    assert answer.role == Role.ROLE_AGENT and answer.parts[0].text == 'just so'
    assert answer.context_id and not answer.task_id, answer
    streaming = await world.client('scripted')
    request = SendMessageRequest(message=script([{'message': 'just so'}]))
    events = [event async for event in streaming.send_message(request)]
    assert [e.WhichOneof('payload') for e in events] == ['message'], events


async def failures(world):
    client = await world.client('scripted', streaming=False)
    failed = await send(client, script([{'fail': 'no luck'}]))
    assert failed.status.state == TaskState.TASK_STATE_FAILED, failed
    assert failed.status.message.parts[0].text == 'no luck', failed
    rejected = await send(client, script([{'reject': 'not for me'}]))
    assert rejected.status.state == TaskState.TASK_STATE_REJECTED, rejected
    asks = await send(client, script([{'auth': 'sign in'}]))
    assert asks.status.state == TaskState.TASK_STATE_AUTH_REQUIRED, asks


async def errors(world):
    client = await world.client('scripted', streaming=False)
    streaming = await world.client('scripted')
    await refused(TaskNotFoundError, client.get_task(GetTaskRequest(id=NOBODY)))
    await refused(TaskNotFoundError, client.cancel_task(CancelTaskRequest(id=NOBODY)))
    await refused(TaskNotFoundError, streaming.subscribe(SubscribeToTaskRequest(id=NOBODY)))
    await refused(TaskNotFoundError, send(client, text('hi', task_id=NOBODY)))
    await refused(TaskNotFoundError, streaming.send_message(SendMessageRequest(message=text('hi', task_id=NOBODY))))
    done = await send(client, text('done'))
    await refused(UnsupportedOperationError, send(client, text('more', task_id=done.id)))
    await refused(UnsupportedOperationError, streaming.subscribe(SubscribeToTaskRequest(id=done.id)))
    await refused(TaskNotCancelableError, client.cancel_task(CancelTaskRequest(id=done.id)))
    await refused(InvalidParamsError, client.list_tasks(ListTasksRequest(page_size=101)))
    await refused(
        InvalidParamsError,
        streaming.subscribe(SubscribeToTaskRequest(id=done.id), context=resume_at('unreadable')),
    )
    await refused(
        TaskNotFoundError,
        streaming.subscribe(SubscribeToTaskRequest(id=done.id), context=resume_at(f'{NOBODY}.1')),
    )


SCENARIOS = [
    discover,
    send_and_get,
    stream,
    list_tasks,
    cancel,
    subscribe,
    resume_by_subscribing,
    resume_by_sending_again,
    answer_a_question,
    direct_message,
    failures,
    errors,
]


async def main(origin, binding, only=None):
    failed = 0
    for scenario in SCENARIOS:
        if only and scenario.__name__ != only:
            continue
        name = f'python {binding} {scenario.__name__}'
        world = World(origin, binding)
        try:
            await asyncio.wait_for(scenario(world), 30)
            print(f'ok {name}')
        except Exception:  # noqa: BLE001 a report names every scenario, whatever broke it
            failed += 1
            print(f'FAILED {name}\n{traceback.format_exc()}')
        finally:
            await world.http.aclose()
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(asyncio.run(main(*sys.argv[1:])))
