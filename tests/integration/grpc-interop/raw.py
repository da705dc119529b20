#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""usage: raw.py DIR: what gRPC clients are known to send and grpc-js and grpcio do not show, frame by frame to DIR/c.sock.

Nothing of HTTP/2 is hidden here but the compression of headers, which is Debian's python3-hpack.
"""

import inspect
import socket
import struct
import sys
import traceback

import hpack

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
NO_ERROR, PROTOCOL_ERROR, CANCEL = 0, 1, 8
ENABLE_PUSH, STREAMS, INITIAL_WINDOW, FRAME_SIZE, HEADER_LIST = 2, 3, 4, 5, 6
EMPTY = b"\0\0\0\0\0"  # a message of nothing
SECONDS = 10
GO, C_CORE, GRPC_JS = [], [(ENABLE_PUSH, 0), (STREAMS, 0), (INITIAL_WINDOW, 4194303), (FRAME_SIZE, 4194303),
                           (HEADER_LIST, 8192), (0xFE03, 1)], [(INITIAL_WINDOW, 65535)]


def expect(got, wanted):
    if got != wanted:
        raise AssertionError(f"{got!r}, not {wanted!r}")


def frame(kind, flags=0, stream=0, body=b""):
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


def settings(pairs):
    return frame(SETTINGS, body=b"".join(struct.pack(">HI", *pair) for pair in pairs))


class Answer:
    """What has come on one stream."""

    def __init__(self):
        self.headers, self.body, self.ended, self.reset = {}, b"", False, None

    @property
    def status(self):
        return self.headers.get("grpc-status")


class Raw:
    """A connection to the server."""

    def __init__(self, path, pairs):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(SECONDS)
        self.socket.connect(path)
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.buffer, self.streams, self.next_id = b"", {}, 1
        self.settings_acked, self.pongs, self.goaway, self.closed = 0, [], None, False
        self.socket.sendall(PREFACE + settings(pairs))

    def send(self, *frames):
        self.socket.sendall(b"".join(frames))

    def head(self, method="EmptyCall", service="grpc.testing.TestService", leave_out=(), **more):
        """The fields of a call in the order that grpc-go has them; more overrides by name, _ for -."""
        fields = {":method": "POST", ":scheme": "http", ":path": f"/{service}/{method}", ":authority": "localhost",
                  "content-type": "application/grpc", "user-agent": "raw/1", "te": "trailers"}
        fields.update({name.replace("_", "-"): value for name, value in more.items()})
        return [(name, value) for name, value in fields.items() if name not in leave_out]

    def start(self, body=EMPTY, end=True, **head):
        """Send HEADERS, and the body in frames of its own; returns the stream's number."""
        stream = self.next_id
        self.next_id += 2
        self.streams[stream] = Answer()
        self.send(frame(HEADERS, END_HEADERS, stream, self.encoder.encode(self.head(**head))))
        if body is not None:
            self.send(frame(DATA, END_STREAM if end else 0, stream, body))
        return stream

    def call(self, **kwargs):
        """A call to its end."""
        stream = self.start(**kwargs)
        self.until(lambda: self.streams[stream].ended)
        return self.streams[stream]

    def until(self, condition):
        while not condition():
            if self.closed:
                raise AssertionError("the server closed the connection")
            self.receive()

    def receive(self):
        while len(self.buffer) < 9 or len(self.buffer) < 9 + int.from_bytes(self.buffer[:3], "big"):
            got = self.socket.recv(65536)
            if not got:
                self.closed = True
                return
            self.buffer += got
        size = int.from_bytes(self.buffer[:3], "big")
        kind, flags = self.buffer[3], self.buffer[4]
        stream = int.from_bytes(self.buffer[5:9], "big")
        body, self.buffer = self.buffer[9 : 9 + size], self.buffer[9 + size :]
        self.take(kind, flags, stream, body)

    def take(self, kind, flags, stream, body):
        answer = self.streams.get(stream)
        if kind == SETTINGS and flags & ACK:
            self.settings_acked += 1
        elif kind == SETTINGS:
            self.send(frame(SETTINGS, ACK))
        elif kind == PING and flags & ACK:
            self.pongs.append(body)
        elif kind == GOAWAY:
            self.goaway = struct.unpack(">II", body[:8])
        elif kind == HEADERS:
            answer.headers.update(self.decoder.decode(body))
        elif kind == DATA:
            answer.body += body
        elif kind == RST:
            answer.reset, answer.ended = struct.unpack(">I", body)[0], True
        if kind in (HEADERS, DATA) and flags & END_STREAM:
            answer.ended = True

    def eof(self):
        """Read until the server closes."""
        while not self.closed:
            self.receive()

    def close(self):
        self.socket.close()


def case_settings_of_grpc_go(open_raw):
    raw = open_raw(GO)
    expect(raw.call().status, "0")
    raw.until(lambda: raw.settings_acked == 1)


def case_settings_of_grpc_js(open_raw):
    expect(open_raw(GRPC_JS).call().status, "0")


def case_settings_of_c_core_with_one_that_nobody_knows(open_raw):
    raw = open_raw(C_CORE)
    raw.send(frame(WINDOW, body=struct.pack(">I", 4128768)))
    expect(raw.call().status, "0")
    raw.until(lambda: raw.settings_acked == 1)


def case_settings_that_change_in_mid_connection(open_raw):
    raw = open_raw(GO)
    for window in (0, 65535, 1, 1 << 20):
        raw.send(settings([(INITIAL_WINDOW, window)]))
        raw.until(lambda: raw.settings_acked >= 1)
        raw.settings_acked = 0
        stream = raw.start()
        if window < len(EMPTY):
            raw.until(lambda stream=stream: raw.streams[stream].headers)
            raw.send(frame(WINDOW, stream=stream, body=struct.pack(">I", 100)))
        raw.until(lambda stream=stream: raw.streams[stream].ended)
        expect(raw.streams[stream].status, "0")


def case_a_window_of_one_byte(open_raw):
    raw = open_raw([(INITIAL_WINDOW, 1)])
    stream = raw.start(body=b"\0\0\0\0\2\x10\x14", method="UnaryCall")  # an answer of 20 bytes
    answer = raw.streams[stream]
    seen = 0
    while not answer.ended:
        raw.receive()
        if len(answer.body) > seen:
            expect(len(answer.body), seen + 1)
            seen += 1
            raw.send(frame(WINDOW, stream=stream, body=struct.pack(">I", 1)))
    expect((answer.status, answer.body), ("0", b"\0\0\0\0\x18\x0a\x16\x12\x14" + bytes(20)))


def case_a_socket_path_as_authority(open_raw):
    for authority in ("/run/holdfast/agent.sock", "%2Frun%2Fholdfast%2Fagent.sock", "localhost", "", "passthrough:///x"):
        expect(open_raw(GO).call(**{":authority": authority}).status, "0")


def case_no_authority(open_raw):
    expect(open_raw(GO).call(leave_out=[":authority"]).status, "0")


def case_no_te(open_raw):
    expect(open_raw(GO).call(leave_out=["te"]).status, "0")


def case_content_types(open_raw):
    raw = open_raw(GO)
    for kind in ("application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"):
        expect(raw.call(content_type=kind).status, "0")
    refused = raw.call(content_type="text/plain")
    expect((refused.headers[":status"], refused.status), ("415", None))


def case_timeouts_as_clients_write_them(open_raw):
    raw = open_raw(GO)
    for timeout in ("4991m", "5S", "99999999n", "1H", "10M", "9999999u", "00000005S"):
        expect(raw.call(grpc_timeout=timeout).status, "0")
    for timeout in ("", "5", "S", "5s", "-1S", "1.5S", "123456789m", "5S5"):
        expect((timeout, raw.call(grpc_timeout=timeout).status), (timeout, "3"))


def case_a_timeout_that_has_passed_is_one_answer(open_raw):
    """0 and 4 are both seen for such a race, but one end of the stream, not two."""
    raw = open_raw(GO)
    for timeout in ("1n", "1u", "0m") * 50:
        answer = raw.call(grpc_timeout=timeout)
        if answer.status not in ("0", "4") or answer.reset is not None:
            raise AssertionError(f"{timeout}: status {answer.status}, reset {answer.reset}")
    raw.send(frame(PING, body=b"12345678"))
    raw.until(lambda: raw.pongs)


def case_a_ping_right_after_the_first_response(open_raw):
    for payload in (b"\x02\x04\x10\x10\x09\x0e\x07\x07", bytes(8)):
        raw = open_raw(GO)
        expect(raw.call().status, "0")
        raw.send(frame(PING, body=payload))
        raw.until(lambda raw=raw: raw.pongs)
        expect(raw.pongs, [payload])
        expect(raw.call().status, "0")


def case_pings_in_a_row(open_raw):
    raw = open_raw(GO)
    stream = raw.start(body=None, method="FullDuplexCall")
    pings = [struct.pack(">Q", i) for i in range(20)]
    raw.send(*(frame(PING, body=ping) for ping in pings))
    raw.until(lambda: len(raw.pongs) == len(pings))
    expect(raw.pongs, pings)
    raw.send(frame(DATA, END_STREAM, stream))
    raw.until(lambda: raw.streams[stream].ended)
    expect(raw.streams[stream].status, "0")


def case_goaway_on_close(open_raw):
    raw = open_raw(GRPC_JS)
    expect(raw.call().status, "0")
    raw.send(frame(GOAWAY, body=struct.pack(">II", 0, NO_ERROR)))
    raw.socket.shutdown(socket.SHUT_WR)
    raw.eof()
    expect(open_raw(GO).call().status, "0")


def case_goaway_with_a_call_in_flight(open_raw):
    raw = open_raw(GO)
    stream = raw.start(body=None, method="FullDuplexCall")
    raw.send(frame(GOAWAY, body=struct.pack(">II", 0, NO_ERROR) + b"going away"))
    raw.send(frame(DATA, 0, stream, b"\0\0\0\0\4\x12\x02\x08\x05"))  # an answer of 5 bytes
    raw.until(lambda: raw.streams[stream].body)
    raw.send(frame(DATA, END_STREAM, stream))
    raw.until(lambda: raw.streams[stream].ended)
    expect((raw.streams[stream].status, len(raw.streams[stream].body)), ("0", 14))


def case_headers_that_end_the_stream(open_raw):
    answer = open_raw(GO).call(body=b"")
    expect(answer.status, "3")


def case_the_end_in_an_empty_frame(open_raw):
    raw = open_raw(GO)
    stream = raw.start(end=False)
    raw.send(frame(DATA, END_STREAM, stream))
    raw.until(lambda: raw.streams[stream].ended)
    expect(raw.streams[stream].status, "0")


def case_a_message_byte_by_byte(open_raw):
    raw = open_raw(GO)
    stream = raw.start(body=None, method="UnaryCall")
    for byte in b"\0\0\0\0\2\x10\x05":
        raw.send(frame(DATA, 0, stream, bytes([byte])))
    raw.send(frame(DATA, END_STREAM, stream))
    raw.until(lambda: raw.streams[stream].ended)
    expect((raw.streams[stream].status, len(raw.streams[stream].body)), ("0", 14))


def case_a_content_length_as_buf_sends_it(open_raw):
    raw = open_raw(GO)
    expect(raw.call(content_length="5").status, "0")


def case_a_cancelled_call_is_not_answered(open_raw):
    raw = open_raw(GO)
    stream = raw.start(body=None, method="StreamingInputCall")
    raw.send(frame(RST, stream=stream, body=struct.pack(">I", CANCEL)))
    expect(raw.call().status, "0")
    expect((raw.streams[stream].headers.get("grpc-status"), raw.streams[stream].reset), (None, None))


def case_256_streams_at_once_and_one_more(open_raw):
    raw = open_raw(GO)
    streams = [raw.start(body=None, method="FullDuplexCall") for _ in range(256)]
    more = raw.start(body=None, method="FullDuplexCall")
    raw.until(lambda: raw.streams[more].ended)
    if raw.streams[more].reset != 7 and raw.streams[more].status != "8":  # REFUSED_STREAM, RESOURCE_EXHAUSTED
        raise AssertionError(f"reset {raw.streams[more].reset}, status {raw.streams[more].status}")
    for stream in streams:
        raw.send(frame(DATA, END_STREAM, stream))
    for stream in streams:
        raw.until(lambda stream=stream: raw.streams[stream].ended)
        expect(raw.streams[stream].status, "0")


def main():
    folder = sys.argv[1]
    failed = 0
    cases = [(name[5:], case) for name, case in inspect.getmembers(sys.modules[__name__], inspect.isfunction)
             if name.startswith("case_")]
    for name, case in cases:
        opened = []

        def open_raw(pairs, opened=opened):
            opened.append(Raw(f"{folder}/c.sock", pairs))
            return opened[-1]

        try:
            case(open_raw)
            print(f"ok      raw frames to us: {name}")
        except Exception:  # whatever it is, the rest is still to be told
            failed += 1
            print(f"FAILED  raw frames to us: {name}: {traceback.format_exc()}")
        for raw in opened:
            raw.close()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
