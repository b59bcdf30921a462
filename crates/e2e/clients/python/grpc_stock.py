"""The stock clients of health, reflection and the rich status model against a running server: grpc_stock.py ORIGIN

Every scenario is reported by name; the exit code is 1 when one failed.
"""

import sys
import traceback

import grpc

from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_status import rpc_status

import channel


SERVICES = {
    'lf.a2a.v1.A2AService': {
        'SendMessage', 'SendStreamingMessage', 'GetTask', 'ListTasks', 'CancelTask', 'SubscribeToTask', 'CreateTaskPushNotificationConfig',
        'GetTaskPushNotificationConfig', 'ListTaskPushNotificationConfigs', 'DeleteTaskPushNotificationConfig', 'GetExtendedAgentCard',
    },
    'a2a.v1.A2AService': {
        'SendMessage', 'SendStreamingMessage', 'GetTask', 'CancelTask', 'TaskSubscription', 'CreateTaskPushNotificationConfig',
        'GetTaskPushNotificationConfig', 'ListTaskPushNotificationConfig', 'DeleteTaskPushNotificationConfig', 'GetAgentCard',
    },
}
REFLECTION = ['grpc.reflection.v1.ServerReflection', 'grpc.reflection.v1alpha.ServerReflection']


def health_is_told_for_every_service(connection):
    stub = health_pb2_grpc.HealthStub(connection)
    for name in ['', *SERVICES]:
        answer = stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=30)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING, (name, answer)


def health_is_watched(connection):
    stub = health_pb2_grpc.HealthStub(connection)
    for name in ['', *SERVICES]:
        watch = stub.Watch(health_pb2.HealthCheckRequest(service=name), timeout=30)
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING, name
        watch.cancel()


def health_of_an_unknown_service_is_unknown(connection):
    stub = health_pb2_grpc.HealthStub(connection)
    request = health_pb2.HealthCheckRequest(service='no.such.Service')
    try:
        raise AssertionError(stub.Check(request, timeout=30))
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.NOT_FOUND, error
    # A watch of it waits until there is one.
    watch = stub.Watch(request, timeout=30)
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    watch.cancel()


def the_services_are_listed_by_the_stock_client(connection):
    listed = set(ProtoReflectionDescriptorDatabase(connection).get_services())
    assert {*SERVICES, *REFLECTION, 'grpc.health.v1.Health'} <= listed, listed


def a_service_is_called_with_nothing_but_its_reflection(connection):
    pool = DescriptorPool(ProtoReflectionDescriptorDatabase(connection))
    for name, methods in SERVICES.items():
        service = pool.FindServiceByName(name)
        assert {method.name for method in service.methods} == methods, [method.name for method in service.methods]
    for name, request in [('lf.a2a.v1.A2AService', {'id': 'nobody'}), ('a2a.v1.A2AService', {'name': 'tasks/nobody'})]:
        method = pool.FindServiceByName(name).FindMethodByName('GetTask')
        message = GetMessageClass(method.input_type)(**request)
        call = connection.unary_unary(
            f'/{name}/GetTask', GetMessageClass(method.input_type).SerializeToString, GetMessageClass(method.output_type).FromString
        )
        try:
            raise AssertionError(call(message, timeout=30))
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.NOT_FOUND, error


def both_versions_of_reflection_say_the_same(connection):
    """There is no stock client of v1; its messages are those of v1alpha."""
    requests = [
        reflection_pb2.ServerReflectionRequest(list_services=''),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol='lf.a2a.v1.A2AService'),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol='a2a.v1.Task'),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol='no.such.Thing'),
        reflection_pb2.ServerReflectionRequest(file_by_filename='no/such.proto'),
        reflection_pb2.ServerReflectionRequest(file_by_filename='google/protobuf/struct.proto'),
    ]
    said = {}
    for service in REFLECTION:
        call = connection.stream_stream(
            f'/{service}/ServerReflectionInfo',
            reflection_pb2.ServerReflectionRequest.SerializeToString,
            reflection_pb2.ServerReflectionResponse.FromString,
        )
        said[service] = [answer for answer in call(iter(requests), timeout=30)]
        kinds = [answer.WhichOneof('message_response') for answer in said[service]]
        found, missing = 'file_descriptor_response', 'error_response'
        assert kinds == ['list_services_response', found, found, missing, missing, found], kinds
        codes = {answer.error_response.error_code for answer in said[service] if answer.HasField(missing)}
        assert codes == {grpc.StatusCode.NOT_FOUND.value[0]}, codes
    assert said[REFLECTION[0]] == said[REFLECTION[1]]


def an_unknown_method_is_unimplemented_and_says_so_in_words(connection):
    for path in ['/lf.a2a.v1.A2AService/Sing', '/a2a.v1.A2AService/Sing', '/no.such.Service/Do', '/lf.a2a.v1.A2AService/']:
        call = connection.unary_unary(path, bytes, bytes)
        try:
            raise AssertionError(call(b'', timeout=30))
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNIMPLEMENTED, (path, error)
            assert error.details(), path
            # Raises where the status contradicts the words and the code beside it.
            rpc_status.from_call(error)


SCENARIOS = [
    health_is_told_for_every_service,
    health_is_watched,
    health_of_an_unknown_service_is_unknown,
    the_services_are_listed_by_the_stock_client,
    a_service_is_called_with_nothing_but_its_reflection,
    both_versions_of_reflection_say_the_same,
    an_unknown_method_is_unimplemented_and_says_so_in_words,
]


def main(origin):
    failed = 0
    with channel.plain_or_secure(origin) as connection:
        for scenario in SCENARIOS:
            try:
                scenario(connection)
                print(f'ok {scenario.__name__}')
            except Exception:  # noqa: BLE001 a report names every scenario, whatever broke it
                failed += 1
                print(f'FAILED {scenario.__name__}\n{traceback.format_exc()}')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
