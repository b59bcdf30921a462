"""What only gRPC has, with the Python SDK of 0.3 against a running server: grpc_scenarios.py ORIGIN

The server's default agent is `echo`, and it allows webhooks to 127.0.0.1. Every scenario is reported by name; the exit code is 1 when
one failed. A name as second argument runs only that one.
"""

import asyncio
import sys
import traceback

import grpc
import httpx
import sdk

from a2a.client import ClientConfig, ClientFactory
from a2a.grpc import a2a_pb2, a2a_pb2_grpc
from a2a.types import (
    AgentCard,
    GetTaskPushNotificationConfigParams,
    Message,
    Part,
    PushNotificationAuthenticationInfo,
    PushNotificationConfig,
    Role,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskState,
    TextPart,
)


NOBODY = '019aa000-0000-7000-8000-00000000abcd'
HOOK = 'http://127.0.0.1:9/hook'


def client(origin, agent='echo', streaming=False):
    return sdk.grpc_client(f'{origin}/a2a/{agent}' if agent else origin, streaming)


def hello(**members):
    return Message(message_id='m', role=Role.user, parts=[Part(root=TextPart(text='hello'))], **members)


async def opened(client):
    return [answer async for answer in client.send_message(hello())][0][0]


async def refused(code, name, call):
    """An error of this kind, whose words begin with its name in 0.3, and whose status says the same as its code."""
    try:
        raise AssertionError(f'accepted with {await call}')
    except grpc.aio.AioRpcError as error:
        assert error.code() == code, error
        told, _, words = error.details().partition(': ')
        assert told == name and words, error


async def a_client_made_of_the_agents_card_reaches_it(origin):
    # Addresses have a scheme in 0.3, and a channel of grpcio takes them without.
    config = ClientConfig(
        streaming=False,
        supported_transports=['GRPC'],
        grpc_channel_factory=lambda url: grpc.aio.insecure_channel(url.removeprefix('http://')),
    )
    made = await ClientFactory.connect(origin, config)
    assert (await opened(made)).status.state == TaskState.completed


async def the_card_is_asked_for_over_grpc(origin):
    for agent in (None, 'scripted'):
        card = await client(origin, agent).get_card()
        assert isinstance(card, AgentCard) and card.name and card.skills and card.capabilities.streaming, card
        assert card.protocol_version.startswith('0.3') and card.url, card
        async with httpx.AsyncClient(timeout=30) as http:
            served = await sdk.card_of(http, f'{origin}/a2a/{agent or "echo"}')
        assert (card.name, card.version) == (served['name'], served['version']), card


async def push_configs_are_made_read_listed_and_deleted(origin):
    one = client(origin)
    task = await opened(one)
    config = PushNotificationConfig(
        id='one', url=HOOK, token='t', authentication=PushNotificationAuthenticationInfo(schemes=['Bearer'], credentials='c')
    )
    made = await one.set_task_callback(TaskPushNotificationConfig(task_id=task.id, push_notification_config=config))
    assert (made.task_id, made.push_notification_config.id, made.push_notification_config.url) == (task.id, 'one', HOOK), made
    asked = GetTaskPushNotificationConfigParams(id=task.id, push_notification_config_id='one')
    got = await one.get_task_callback(asked)
    assert got.task_id == task.id and got.push_notification_config.url == HOOK, got
    assert got.push_notification_config.authentication.schemes == ['Bearer'], got
    # The SDK's client has no calls for these; its stub has.
    async with grpc.aio.insecure_channel(origin.removeprefix('http://')) as channel:
        stub = a2a_pb2_grpc.A2AServiceStub(channel)
        every = a2a_pb2.ListTaskPushNotificationConfigRequest(parent=f'tasks/{task.id}')
        listed = await stub.ListTaskPushNotificationConfig(every)
        name = f'tasks/{task.id}/pushNotificationConfigs/one'
        assert [one.name for one in listed.configs] == [name], listed
        await stub.DeleteTaskPushNotificationConfig(a2a_pb2.DeleteTaskPushNotificationConfigRequest(name=name))
        assert not (await stub.ListTaskPushNotificationConfig(every)).configs
    await refused(grpc.StatusCode.NOT_FOUND, 'TaskNotFoundError', one.get_task_callback(asked))
    nobodys = TaskPushNotificationConfig(task_id=NOBODY, push_notification_config=config)
    await refused(grpc.StatusCode.NOT_FOUND, 'TaskNotFoundError', one.set_task_callback(nobodys))


async def a_config_without_an_id_gets_one(origin):
    one = client(origin)
    task = await opened(one)
    config = TaskPushNotificationConfig(task_id=task.id, push_notification_config=PushNotificationConfig(url=HOOK))
    made = (await one.set_task_callback(config)).push_notification_config
    assert made.id and made.url == HOOK, made
    got = await one.get_task_callback(GetTaskPushNotificationConfigParams(id=task.id, push_notification_config_id=made.id))
    assert got.push_notification_config.id == made.id, got


async def names_that_are_no_tasks_are_invalid(origin):
    async with grpc.aio.insecure_channel(origin.removeprefix('http://')) as channel:
        stub = a2a_pb2_grpc.A2AServiceStub(channel)
        task = (await opened(client(origin))).id
        for name in ['', 'tasks/', f'task/{task}', f'/tasks/{task}']:
            invalid = grpc.StatusCode.INVALID_ARGUMENT, 'InvalidParamsError'
            await refused(*invalid, stub.GetTask(a2a_pb2.GetTaskRequest(name=name)))
            await refused(*invalid, stub.CancelTask(a2a_pb2.CancelTaskRequest(name=name)))
            await refused(*invalid, stub.GetTaskPushNotificationConfig(a2a_pb2.GetTaskPushNotificationConfigRequest(name=name)))


async def history_of_no_length_is_the_whole_history(origin):
    """A number that is not said and a zero are the same bytes in 0.3."""
    task = await opened(client(origin))
    async with grpc.aio.insecure_channel(origin.removeprefix('http://')) as channel:
        stub = a2a_pb2_grpc.A2AServiceStub(channel)
        whole = await stub.GetTask(a2a_pb2.GetTaskRequest(name=f'tasks/{task.id}'))
        assert len(whole.history) == 1, whole


async def a_send_that_does_not_say_blocking_returns_at_once(origin):
    """`blocking` is false where it is not said; the task goes on."""
    async with grpc.aio.insecure_channel(origin.removeprefix('http://')) as channel:
        stub = a2a_pb2_grpc.A2AServiceStub(channel)
        part = a2a_pb2.Part()
        part.data.data.update({'script': [{'status': 'working'}, {'hang': True}]})
        message = a2a_pb2.Message(message_id='m', role=a2a_pb2.ROLE_USER, content=[part])
        named = [('x-a2a-agent', 'scripted')]
        answer = await stub.SendMessage(a2a_pb2.SendMessageRequest(request=message), metadata=named, timeout=30)
        assert answer.task.status.state in (a2a_pb2.TASK_STATE_SUBMITTED, a2a_pb2.TASK_STATE_WORKING), answer
        canceled = await stub.CancelTask(a2a_pb2.CancelTaskRequest(name=f'tasks/{answer.task.id}'), metadata=named)
        assert canceled.status.state == a2a_pb2.TASK_STATE_CANCELLED, canceled


async def a_subscription_to_nobody_is_refused(origin):
    events = client(origin, streaming=True).resubscribe(TaskIdParams(id=NOBODY))
    await refused(grpc.StatusCode.NOT_FOUND, 'TaskNotFoundError', anext(events))


SCENARIOS = [
    a_client_made_of_the_agents_card_reaches_it,
    the_card_is_asked_for_over_grpc,
    push_configs_are_made_read_listed_and_deleted,
    a_config_without_an_id_gets_one,
    names_that_are_no_tasks_are_invalid,
    history_of_no_length_is_the_whole_history,
    a_send_that_does_not_say_blocking_returns_at_once,
    a_subscription_to_nobody_is_refused,
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
