"""What only gRPC has, with the Python SDK (a2a-sdk 1.x) against a running server: grpc_scenarios.py ORIGIN

The server's default agent is `echo`, and it allows webhooks to 127.0.0.1. Every scenario is reported by name; the exit code is 1 when
one failed. A name as second argument runs only that one.
"""

import asyncio
import sys
import traceback
import uuid

import grpc

from a2a.client import ClientCallContext, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import A2AError, TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Value

from channel import Ids, connect, with_metadata
from fold import Fold
from scenarios import CHUNKS, NOBODY, refused, script, send, text


HANGING = [{'status': 'working', 'text': 'waiting'}, {'hang': True}]


async def a_client_made_of_the_agents_card_reaches_it(origin):
    for agent, expected in [('echo', TaskState.TASK_STATE_COMPLETED), ('scripted', TaskState.TASK_STATE_INPUT_REQUIRED)]:
        config = ClientConfig(
            streaming=False,
            supported_protocol_bindings=['GRPC'],
            grpc_channel_factory=grpc.aio.insecure_channel,
        )
        client = await ClientFactory(config).create_from_url(f'{origin}/a2a/{agent}')
        task = await send(client, script([{'input': 'well?'}]))
        assert task.status.state == expected, (agent, task)
        await client.close()


async def without_a_name_it_is_the_default_agent(origin):
    client = connect(origin, None, streaming=False)
    task = await send(client, script([{'input': 'well?'}]))
    assert task.status.state == TaskState.TASK_STATE_COMPLETED, 'echo does not run scripts'


async def an_agent_is_named_by_the_tenant_or_by_metadata(origin):
    steps = [{'input': 'well?'}]
    task = await send(connect(origin, 'scripted', streaming=False), script(steps))
    assert task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED, task
    plain = connect(origin, None, streaming=False)
    request = SendMessageRequest(message=script(steps))
    answers = [answer async for answer in plain.send_message(request, context=with_metadata(x_a2a_agent='scripted'))]
    assert answers[0].task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED, answers
    # A task belongs to its agent.
    await refused(TaskNotFoundError, plain.get_task(GetTaskRequest(id=task.id)))
    named = await plain.get_task(GetTaskRequest(id=task.id), context=with_metadata(x_a2a_agent='scripted'))
    assert named.id == task.id


async def an_unknown_agent_is_not_found(origin):
    for client, context in [
        (connect(origin, 'nobody'), None),
        (connect(origin, None), with_metadata(x_a2a_agent='nobody')),
    ]:
        for call in [
            client.get_task(GetTaskRequest(id=NOBODY), context=context),
            client.list_tasks(ListTasksRequest(), context=context),
        ]:
            try:
                raise AssertionError(f'accepted with {await call}')
            except (A2AError, A2AClientError) as error:
                code = error.__cause__.code()
                assert code in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNIMPLEMENTED) and str(error), error


async def push_configs_are_made_read_listed_and_deleted(origin):
    client = connect(origin, 'scripted', streaming=False)
    task = await send(client, script(HANGING), return_immediately=True)
    made = []
    for name in ('one', 'two'):
        config = TaskPushNotificationConfig(task_id=task.id, id=name, url=f'http://127.0.0.1:9/{name}', token='t')
        config.authentication.scheme = 'Bearer'
        config.authentication.credentials = 'c'
        answer = await client.create_task_push_notification_config(config)
        assert (answer.task_id, answer.id, answer.url) == (task.id, name, config.url), answer
        made.append(answer)
    got = await client.get_task_push_notification_config(GetTaskPushNotificationConfigRequest(task_id=task.id, id='one'))
    assert (got.task_id, got.id, got.url, got.authentication.scheme) == (task.id, 'one', made[0].url, 'Bearer'), got
    listed = await client.list_task_push_notification_configs(ListTaskPushNotificationConfigsRequest(task_id=task.id))
    assert {config.id for config in listed.configs} == {'one', 'two'}, listed
    first = ListTaskPushNotificationConfigsRequest(task_id=task.id, page_size=1)
    page = await client.list_task_push_notification_configs(first)
    first.page_token = page.next_page_token
    rest = await client.list_task_push_notification_configs(first)
    assert {page.configs[0].id, rest.configs[0].id} == {'one', 'two'} and not rest.next_page_token, (page, rest)
    gone = DeleteTaskPushNotificationConfigRequest(task_id=task.id, id='one')
    assert await client.delete_task_push_notification_config(gone) is None
    listed = await client.list_task_push_notification_configs(ListTaskPushNotificationConfigsRequest(task_id=task.id))
    assert [config.id for config in listed.configs] == ['two'], listed
    asked = GetTaskPushNotificationConfigRequest(task_id=task.id, id='one')
    await refused(TaskNotFoundError, client.get_task_push_notification_config(asked))
    nobodys = TaskPushNotificationConfig(task_id=NOBODY, id='one', url='http://127.0.0.1:9/')
    await refused(TaskNotFoundError, client.create_task_push_notification_config(nobodys))
    request = SendMessageRequest(message=script(HANGING))
    request.configuration.return_immediately = True
    request.configuration.task_push_notification_config.CopyFrom(
        TaskPushNotificationConfig(id='with it', url='http://127.0.0.1:9/with')
    )
    opened = [answer async for answer in client.send_message(request)][0].task
    listed = await client.list_task_push_notification_configs(ListTaskPushNotificationConfigsRequest(task_id=opened.id))
    assert [(config.task_id, config.id) for config in listed.configs] == [(opened.id, 'with it')], listed
    for open_task in (task, opened):
        await client.cancel_task(CancelTaskRequest(id=open_task.id))


async def a_deadline_is_answered_with_the_task_as_it_is_and_the_task_goes_on(origin):
    client = connect(origin, 'scripted', streaming=False)
    request = SendMessageRequest(message=script(HANGING))
    answers = [answer async for answer in client.send_message(request, context=ClientCallContext(timeout=3))]
    task = answers[0].task
    assert task.status.state == TaskState.TASK_STATE_WORKING, task
    got = await client.get_task(GetTaskRequest(id=task.id))
    assert got.status.state == TaskState.TASK_STATE_WORKING, got
    canceled = await client.cancel_task(CancelTaskRequest(id=task.id))
    assert canceled.status.state == TaskState.TASK_STATE_CANCELED, canceled


async def an_idempotency_key_opens_one_task(origin):
    client = connect(origin, 'echo', streaming=False)
    context = with_metadata(idempotency_key=str(uuid.uuid4()))
    request = SendMessageRequest(message=text('once'))
    first, second = [
        [answer async for answer in client.send_message(request, context=context)][0].task.id for _ in range(2)
    ]
    assert first == second


async def a_stream_says_its_last_id_at_its_end_and_comes_back_there(origin):
    ids = Ids()
    client = connect(origin, 'scripted', interceptors=[ids])
    fold = Fold()
    async for event in client.send_message(SendMessageRequest(message=script(CHUNKS))):
        fold.take(event)
    last = ids.trailing['last-event-id']
    assert last.rpartition('.')[0] == fold.id and '+' not in last, last
    # The id of the last message, told in both ways, is the same place: only the settled task is left to say.
    for place in (last, ids.seen[-1]):
        again = Fold()
        back = client.subscribe(SubscribeToTaskRequest(id=fold.id), context=with_metadata(last_event_id=place))
        events = [event async for event in back]
        for event in events:
            again.take(event)
        assert again == fold and len(events) == 1, (place, events)
        assert ids.seen == [last] and ids.trailing['last-event-id'] == last, (ids.seen, ids.trailing)


async def every_message_of_a_stream_is_a_place_to_come_back_to(origin):
    ids = Ids()
    client = connect(origin, 'scripted', interceptors=[ids])
    events = [event async for event in client.send_message(SendMessageRequest(message=script(CHUNKS)))]
    places, states, fold = ids.seen, [], Fold()
    for event in events:
        fold.take(event)
        states.append(repr(fold))
    for place, state in zip(places, states, strict=True):
        whole = Fold()
        back = client.subscribe(SubscribeToTaskRequest(id=fold.id), context=with_metadata(last_event_id=place))
        index = 0
        async for event in back:
            whole.take(event)
            if index == 0:
                assert repr(whole) == state, (place, whole, state)
            index += 1
        assert whole == fold, (place, whole, fold)


async def compressed_messages_are_taken_and_answered(origin):
    long = 'la ' * 100_000
    for compression in (grpc.Compression.Gzip, grpc.Compression.NoCompression):
        for streaming in (False, True):
            client = connect(origin, 'echo', streaming=streaming, compression=compression)
            fold = Fold()
            async for event in client.send_message(SendMessageRequest(message=text(long))):
                fold.take(event)
            assert list(fold.artifacts.values()) == [long], (compression, streaming)


async def all_kinds_of_parts_and_metadata_come_back_unchanged(origin):
    client = connect(origin, 'echo', streaming=False)
    message = text('hello')
    message.metadata.update({'of': 'message', 'deep': {'list': [1.5, None, True, 'x', {}]}})
    message.extensions.append('https://example.com/ext')
    message.parts[0].metadata.update({'of': 'part'})
    message.parts.add(url='https://example.com/a.png', media_type='image/png', filename='a.png')
    message.parts.add(raw=bytes(range(256)), media_type='application/octet-stream', filename='all bytes')
    for data in [None, True, 0, -0.5, 1e300, 'x', '', [], {}, [[]], {'a': [1, None, 'x'], 'b': {}}, '\u0000\U0001f600']:
        message.parts.add().data.CopyFrom(ParseDict(data, Value()))
    task = await send(client, message)
    assert list(task.artifacts[0].parts) == list(message.parts), task.artifacts
    got = await client.get_task(GetTaskRequest(id=task.id))
    first = got.history[0]
    assert list(first.parts) == list(message.parts) and first.metadata == message.metadata, first
    assert list(first.extensions) == list(message.extensions), first


async def as_deep_as_the_reader_reads(origin):
    """The SDK's reader refuses a message of more than a hundred levels; an answer has a few around the data."""
    client = connect(origin, 'echo', streaming=False)
    for levels, level in [(30, lambda inner: {'a': inner}), (45, lambda inner: [inner])]:
        data = 1
        for _ in range(levels):
            data = level(data)
        message = text('deep')
        message.parts.add().data.CopyFrom(ParseDict(data, Value(), max_recursion_depth=1000))
        task = await send(client, message)
        assert list(task.artifacts[0].parts) == list(message.parts), levels
        listed = await client.list_tasks(ListTasksRequest(context_id=task.context_id, include_artifacts=True))
        assert listed.tasks[0].artifacts == task.artifacts, levels


async def the_extended_card_is_answered_or_refused_in_its_own_words(origin):
    client = connect(origin, 'echo')
    try:
        card = await client.get_extended_agent_card(GetExtendedAgentCardRequest())
        assert card.name and card.supported_interfaces, card
    except A2AError as error:
        assert isinstance(error, UnsupportedOperationError), error


async def the_sdk_of_today_speaks_to_the_service_of_0_3(origin):
    """With the SDK's own layer for 0.3, which reads the name of an error out of its words."""
    quiet = connect(origin, None, streaming=False, version='0.3')
    client = connect(origin, None, version='0.3')
    scripted = with_metadata(x_a2a_agent='scripted')

    async def said(client, message):
        return [event async for event in client.send_message(SendMessageRequest(message=message), context=scripted)]

    events = await said(client, script(CHUNKS))
    fold = Fold()
    for event in events:
        fold.take(event)
    assert fold.state == TaskState.TASK_STATE_COMPLETED and list(fold.artifacts.values()) == ['abc ' * 12], events
    assert fold == Fold.of_task(await quiet.get_task(GetTaskRequest(id=fold.id), context=scripted))
    asked = (await said(quiet, script([{'input': 'name?'}, {'complete': 'thanks'}])))[0].task
    assert asked.status.state == TaskState.TASK_STATE_INPUT_REQUIRED, asked
    done = (await said(quiet, text('Ada', task_id=asked.id)))[0].task
    assert done.status.state == TaskState.TASK_STATE_COMPLETED, done
    await refused(TaskNotCancelableError, quiet.cancel_task(CancelTaskRequest(id=done.id), context=scripted))
    await refused(TaskNotFoundError, quiet.get_task(GetTaskRequest(id=NOBODY), context=scripted))
    await refused(TaskNotFoundError, client.subscribe(SubscribeToTaskRequest(id=NOBODY), context=scripted))
    config = TaskPushNotificationConfig(task_id=asked.id, id='one', url='http://127.0.0.1:9/')
    made = await quiet.create_task_push_notification_config(config, context=scripted)
    assert (made.task_id, made.id) == (asked.id, 'one'), MessageToDict(made)
    every = ListTaskPushNotificationConfigsRequest(task_id=asked.id)
    listed = await quiet.list_task_push_notification_configs(every, context=scripted)
    assert [one.id for one in listed.configs] == ['one'], listed
    one = DeleteTaskPushNotificationConfigRequest(task_id=asked.id, id='one')
    await quiet.delete_task_push_notification_config(one, context=scripted)
    listed = await quiet.list_task_push_notification_configs(every, context=scripted)
    assert not listed.configs, listed


async def one_connection_carries_many_calls_at_once(origin):
    client = connect(origin, 'echo', streaming=False)
    words = [f'word {n}' for n in range(200)]
    tasks = await asyncio.gather(*[send(client, text(word)) for word in words])
    assert [task.artifacts[0].parts[0].text for task in tasks] == words


SCENARIOS = [
    a_client_made_of_the_agents_card_reaches_it,
    without_a_name_it_is_the_default_agent,
    an_agent_is_named_by_the_tenant_or_by_metadata,
    an_unknown_agent_is_not_found,
    push_configs_are_made_read_listed_and_deleted,
    a_deadline_is_answered_with_the_task_as_it_is_and_the_task_goes_on,
    an_idempotency_key_opens_one_task,
    a_stream_says_its_last_id_at_its_end_and_comes_back_there,
    every_message_of_a_stream_is_a_place_to_come_back_to,
    compressed_messages_are_taken_and_answered,
    all_kinds_of_parts_and_metadata_come_back_unchanged,
    as_deep_as_the_reader_reads,
    the_extended_card_is_answered_or_refused_in_its_own_words,
    the_sdk_of_today_speaks_to_the_service_of_0_3,
    one_connection_carries_many_calls_at_once,
]


async def main(origin, only=None):
    failed = 0
    for scenario in SCENARIOS:
        if only and scenario.__name__ != only:
            continue
        try:
            await asyncio.wait_for(scenario(origin), 60)
            print(f'ok {scenario.__name__}')
        except Exception:  # noqa: BLE001 a report names every scenario, whatever broke it
            failed += 1
            print(f'FAILED {scenario.__name__}\n{traceback.format_exc()}')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(asyncio.run(main(*sys.argv[1:])))
