#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""usage: cases.py DIR PORT: grpc's interoperability tests by grpcio, against the server at DIR/c.sock and at PORT with TLS.

Wants interop_pb2 and holdfast.v1 as protoc --python_out makes them, in PYTHONPATH; python3 is Debian's.
"""

import inspect
import sys
import threading
import time
import traceback

import grpc
import interop_pb2 as pb
from holdfast.v1 import volumes_pb2

SECONDS = 10
LARGE_REQUEST, LARGE_RESPONSE = 271828, 314159
REQUESTS = [27182, 8, 1828, 45904]
RESPONSES = [31415, 9, 2653, 58979]
WHITESPACE = "\t\ntest with whitespace\r\nand Unicode BMP \u263a and non-BMP \U0001f608\t\n"
MISSING = 'volume "missing" is 100% away\nna\u00efve'
OPTIONS = [
    ("grpc.max_receive_message_length", 8 << 20),
    ("grpc.ssl_target_name_override", "localhost"),
]


def payload(size):
    return pb.Payload(body=bytes(size))


def expect(got, wanted):
    if got != wanted:
        raise AssertionError(f"{got!r}, not {wanted!r}")


class Peer:
    """Calls of our server over one channel."""

    def __init__(self, where, open_channel, identity):
        self.where, self.open_channel, self.identity = where, open_channel, identity
        self.channel = open_channel()

    def method(self, form, path, request, response, channel=None):
        kind = getattr(channel or self.channel, form)
        return kind(path, request_serializer=request.SerializeToString, response_deserializer=response.FromString)

    def test(self, name, form, request, response, service="TestService"):
        return self.method(form, f"/grpc.testing.{service}/{name}", request, response)

    def empty(self, timeout=SECONDS, **kwargs):
        return self.test("EmptyCall", "unary_unary", pb.Empty, pb.Empty)(pb.Empty(), timeout=timeout, **kwargs)

    def unary(self, **kwargs):
        call = self.test("UnaryCall", "unary_unary", pb.SimpleRequest, pb.SimpleResponse)
        metadata = kwargs.pop("metadata", None)
        return call(pb.SimpleRequest(**kwargs), timeout=SECONDS, metadata=metadata)

    def input(self):
        return self.test("StreamingInputCall", "stream_unary", pb.StreamingInputCallRequest,
                         pb.StreamingInputCallResponse)

    def duplex(self):
        return self.test("FullDuplexCall", "stream_stream", pb.StreamingOutputCallRequest,
                         pb.StreamingOutputCallResponse)

    def volume(self, id_, metadata=None, timeout=SECONDS, channel=None, compression=None, **kwargs):
        call = self.method("unary_unary", "/holdfast.v1.Volumes/Get", volumes_pb2.GetVolumeRequest,
                           volumes_pb2.GetVolumeResponse, channel)
        return call(volumes_pb2.GetVolumeRequest(id=id_, **kwargs), timeout=timeout, metadata=metadata,
                    compression=compression)

    def none_open(self):
        """Streams that a client has given up do not stay open at the server."""
        for _ in range(100):
            if self.volume("streams").why == "0":
                return
            time.sleep(0.02)
        raise AssertionError("a stream stayed open")


def refused(call):
    """The code and text that a call ends with."""
    try:
        call()
    except grpc.RpcError as error:
        return error.code().value[0], error.details()
    return 0, ""


def output(size, **kwargs):
    return pb.StreamingOutputCallRequest(response_parameters=[pb.ResponseParameters(size=size)], **kwargs)


def case_empty_unary(p):
    expect(p.empty(), pb.Empty())


def case_large_unary(p):
    answer = p.unary(response_size=LARGE_RESPONSE, payload=payload(LARGE_REQUEST))
    expect(answer.payload.body, bytes(LARGE_RESPONSE))


def case_a_thousand_calls_at_once(p):
    call = p.test("UnaryCall", "unary_unary", pb.SimpleRequest, pb.SimpleResponse)
    futures = [call.future(pb.SimpleRequest(response_size=i), timeout=SECONDS * 3) for i in range(1000)]
    for i, future in enumerate(futures):
        expect(len(future.result().payload.body), i)


def case_client_streaming(p):
    requests = (pb.StreamingInputCallRequest(payload=payload(size)) for size in REQUESTS)
    expect(p.input()(requests, timeout=SECONDS).aggregated_payload_size, 74922)


def case_server_streaming(p):
    call = p.test("StreamingOutputCall", "unary_stream", pb.StreamingOutputCallRequest,
                  pb.StreamingOutputCallResponse)
    request = pb.StreamingOutputCallRequest(response_parameters=[pb.ResponseParameters(size=s) for s in RESPONSES])
    expect([len(answer.payload.body) for answer in call(request, timeout=SECONDS)], RESPONSES)


def case_ping_pong(p):
    turn = threading.Semaphore(1)

    def requests():
        for ask, answer in zip(REQUESTS, RESPONSES):
            turn.acquire()
            yield output(answer, payload=payload(ask))

    sizes = []
    for answer in p.duplex()(requests(), timeout=SECONDS):
        sizes.append(len(answer.payload.body))
        turn.release()
    expect(sizes, RESPONSES)


def case_empty_stream(p):
    expect(list(p.duplex()(iter(()), timeout=SECONDS)), [])


def case_timeout_on_sleeping_server(p):
    until = threading.Event()

    def requests():
        yield pb.StreamingOutputCallRequest(payload=payload(27182))
        until.wait(SECONDS)

    for timeout in (0.001, 0.1):
        code, _ = refused(lambda timeout=timeout: list(p.duplex()(requests(), timeout=timeout)))
        expect(code, 4)
    until.set()
    p.none_open()


def case_a_deadline_of_a_unary_call(p):
    expect(refused(lambda: p.volume("hold", timeout=0.1))[0], 4)


def case_cancel_after_begin(p):
    until = threading.Event()

    def requests():
        until.wait(SECONDS)
        yield from ()

    future = p.input().future(requests(), timeout=SECONDS)
    future.cancel()
    until.set()
    expect(future.code(), grpc.StatusCode.CANCELLED)
    p.none_open()


def case_cancel_after_first_response(p):
    until = threading.Event()

    def requests():
        yield output(31415, payload=payload(27182))
        until.wait(SECONDS)

    call = p.duplex()(requests(), timeout=SECONDS)
    expect(len(next(call).payload.body), 31415)
    call.cancel()
    until.set()
    expect(refused(lambda: next(call))[0], 1)
    p.none_open()


def case_status_code_and_message(p):
    told = {"response_status": pb.EchoStatus(code=2, message="test status message")}
    expect(refused(lambda: p.unary(**told)), (2, "test status message"))
    requests = iter([pb.StreamingOutputCallRequest(**told)])
    expect(refused(lambda: list(p.duplex()(requests, timeout=SECONDS))), (2, "test status message"))


def case_every_status_code(p):
    for code in range(1, 17):
        told = pb.EchoStatus(code=code, message=f"it is {code}")
        expect(refused(lambda told=told: p.unary(response_status=told)), (code, f"it is {code}"))


def case_special_status_message(p):
    told = pb.EchoStatus(code=2, message=WHITESPACE)
    expect(refused(lambda: p.unary(response_status=told)), (2, WHITESPACE))
    expect(refused(lambda: p.volume("missing")), (5, MISSING))


def case_unimplemented_method(p):
    call = p.test("UnimplementedCall", "unary_unary", pb.Empty, pb.Empty)
    expect(refused(lambda: call(pb.Empty(), timeout=SECONDS))[0], 12)


def case_unimplemented_service(p):
    call = p.test("UnimplementedCall", "unary_unary", pb.Empty, pb.Empty, "UnimplementedService")
    expect(refused(lambda: call(pb.Empty(), timeout=SECONDS))[0], 12)


def case_custom_metadata_that_nobody_asked_for(p):
    metadata = [("x-grpc-test-echo-initial", "test_initial_metadata_value"),
                ("x-grpc-test-echo-trailing-bin", b"\xab\xab\xab")]
    metadata += [("x-again-bin", bytes([i]) * 100) for i in range(20)]
    answer = p.unary(response_size=10, payload=payload(10), metadata=metadata)
    expect(len(answer.payload.body), 10)
    answers = list(p.duplex()(iter([output(10)]), timeout=SECONDS, metadata=metadata))
    expect([len(answer.payload.body) for answer in answers], [10])


def case_custom_metadata_a_token(p):
    expect(p.volume("token", metadata=[("authorization", "Bearer a-token")]).why, "a-token")


def case_custom_metadata_a_trailer_of_bytes(p):
    try:
        p.volume(MISSING, namespace="details")
    except grpc.RpcError as error:
        expect(error.code(), grpc.StatusCode.FAILED_PRECONDITION)
        trailers = dict(error.trailing_metadata())
        sent = volumes_pb2.GetVolumeRequest(id=MISSING, namespace="details")
        expect(volumes_pb2.GetVolumeRequest.FromString(trailers["holdfast-error-details-bin"]), sent)
        return
    raise AssertionError("no error")


def case_the_identity(p):
    expect(p.volume("whoami").why, p.identity)


def case_a_large_answer(p):
    expect(len(p.volume("huge").why), 3000000)


def case_a_request_at_and_above_the_limit(p):
    expect(p.volume("x" * (1048576 - 4)).volume.id, "long")
    expect(refused(lambda: p.volume("x" * (1048576 - 3)))[0], 8)


def case_a_compressed_request(p):
    expect(refused(lambda: p.volume("z" * 1000, compression=grpc.Compression.Gzip))[0], 12)


def case_many_channels(p):
    """A channel each, which is a connection each, closed with calls in flight."""
    options = OPTIONS + [("grpc.use_local_subchannel_pool", 1)]
    for _ in range(10):
        channel = p.open_channel(options)
        expect(p.volume("db", channel=channel).volume.id, "db")
        call = p.method("unary_unary", "/holdfast.v1.Volumes/Get", volumes_pb2.GetVolumeRequest,
                        volumes_pb2.GetVolumeResponse, channel)
        future = call.future(volumes_pb2.GetVolumeRequest(id="db"), timeout=SECONDS)
        channel.close()
        if future.code() not in (grpc.StatusCode.OK, grpc.StatusCode.CANCELLED):
            raise AssertionError(f"ended with {future.code()}")
    p.none_open()


def read(folder, name):
    with open(f"{folder}/{name}", "rb") as f:
        return f.read()


def main():
    folder, port = sys.argv[1:]
    tls = grpc.ssl_channel_credentials(read(folder, "ca.crt"), read(folder, "node.key"), read(folder, "node.crt"))
    peers = [
        Peer("unix", lambda options=OPTIONS: grpc.insecure_channel(f"unix:{folder}/c.sock", options), ""),
        Peer("TLS", lambda options=OPTIONS: grpc.secure_channel(f"127.0.0.1:{port}", tls, options),
             "holdfast://interop/node/n1"),
    ]
    cases = [(name[5:], case) for name, case in inspect.getmembers(sys.modules[__name__], inspect.isfunction)
             if name.startswith("case_")]
    failed = 0
    for peer in peers:
        for name, case in cases:
            try:
                case(peer)
                print(f"ok      grpcio to us, {peer.where}: {name}")
            except Exception:  # whatever it is, the rest is still to be told
                failed += 1
                print(f"FAILED  grpcio to us, {peer.where}: {name}: {traceback.format_exc()}")
        peer.channel.close()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
