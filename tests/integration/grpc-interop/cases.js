// SPDX-License-Identifier: Apache-2.0
// grpc's interoperability tests by grpc-js, as grpc/doc/interop-test-descriptions.md has them; each is a function of a peer
// with a client t of the TestService, u of the UnimplementedService, and v of our Volumes.
const { grpc, MISSING } = require('./peer');
const assert = require('assert');

const LARGE_REQUEST = 271828;
const LARGE_RESPONSE = 314159;
const REQUESTS = [27182, 8, 1828, 45904];
const RESPONSES = [31415, 9, 2653, 58979];
const WHITESPACE = '\t\ntest with whitespace\r\nand Unicode BMP \u263a and non-BMP \u{1f608}\t\n';

const deadline = (ms = 10000) => ({ deadline: Date.now() + ms });
const payload = (size) => ({ payload: { body: Buffer.alloc(size) } });
const unary = (client, method, ask, metadata = new grpc.Metadata(), options = deadline()) => new Promise((resolve) => {
  client[method](ask, metadata, options, (error, answer) => resolve(error || answer));
});

// The end of a stream, and what had come until then.
const end = (stream) => new Promise((resolve) => {
  const sizes = [];
  stream.on('data', (answer) => sizes.push(answer.payload.body.length));
  stream.on('error', () => {});
  stream.on('status', (status) => resolve({ sizes, code: status.code, details: status.details }));
});

// Streams that a client has given up do not stay open at the server.
async function noneOpen({ v }) {
  for (let i = 0; i < 100; i++) {
    const { why } = await unary(v, 'Get', { id: 'streams' });
    if (why === '0') return;
    await new Promise((resolve) => { setTimeout(resolve, 20); });
  }
  assert.fail('a stream stayed open');
}

module.exports = {
  async 'empty_unary'({ t }) {
    assert.deepStrictEqual(await unary(t, 'EmptyCall', {}), {});
  },
  async 'large_unary'({ t }) {
    const answer = await unary(t, 'UnaryCall', { response_size: LARGE_RESPONSE, ...payload(LARGE_REQUEST) });
    assert.strictEqual(answer.payload && answer.payload.body.length, LARGE_RESPONSE);
    assert.ok(answer.payload.body.every((byte) => byte === 0));
  },
  async 'large_unary, a hundred at once'({ t }) {
    const answers = await Promise.all(Array.from({ length: 100 }, () => unary(t, 'UnaryCall',
      { response_size: 30000, ...payload(20000) })));
    answers.forEach((answer) => assert.strictEqual(answer.payload && answer.payload.body.length, 30000));
  },
  async 'client_streaming'({ t }) {
    const answer = await new Promise((resolve) => {
      const stream = t.StreamingInputCall(deadline(), (error, got) => resolve(error || got));
      REQUESTS.forEach((size) => stream.write(payload(size)));
      stream.end();
    });
    assert.strictEqual(answer.aggregated_payload_size, 74922);
  },
  async 'server_streaming'({ t }) {
    const got = await end(t.StreamingOutputCall({ response_parameters: RESPONSES.map((size) => ({ size })) }, deadline()));
    assert.deepStrictEqual(got, { sizes: RESPONSES, code: grpc.status.OK, details: '' });
  },
  async 'ping_pong'({ t }) {
    const stream = t.FullDuplexCall(deadline());
    const ended = end(stream);
    let turn = 0;
    const ask = () => stream.write({ response_parameters: [{ size: RESPONSES[turn] }], ...payload(REQUESTS[turn]) });
    stream.on('data', () => { turn++; if (turn < RESPONSES.length) ask(); else stream.end(); });
    ask();
    assert.deepStrictEqual(await ended, { sizes: RESPONSES, code: grpc.status.OK, details: '' });
  },
  async 'empty_stream'({ t }) {
    const stream = t.FullDuplexCall(deadline());
    stream.end();
    assert.deepStrictEqual(await end(stream), { sizes: [], code: grpc.status.OK, details: '' });
  },
  async 'timeout_on_sleeping_server'({ t }) {
    const stream = t.FullDuplexCall(deadline(1));
    stream.write(payload(27182));
    assert.strictEqual((await end(stream)).code, grpc.status.DEADLINE_EXCEEDED);
  },
  async 'cancel_after_begin'({ t, v }) {
    const error = await new Promise((resolve) => {
      const stream = t.StreamingInputCall(deadline(), resolve);
      setImmediate(() => stream.cancel());
    });
    assert.strictEqual(error.code, grpc.status.CANCELLED);
    await noneOpen({ v });
  },
  async 'cancel_after_first_response'({ t, v }) {
    const stream = t.FullDuplexCall(deadline());
    stream.on('data', () => stream.cancel());
    stream.write({ response_parameters: [{ size: 31415 }], ...payload(27182) });
    const got = await end(stream);
    assert.deepStrictEqual([got.sizes, got.code], [[31415], grpc.status.CANCELLED]);
    await noneOpen({ v });
  },
  async 'status_code_and_message'({ t }) {
    const told = { response_status: { code: 2, message: 'test status message' } };
    const error = await unary(t, 'UnaryCall', told);
    assert.deepStrictEqual([error.code, error.details], [2, 'test status message']);
    const stream = t.FullDuplexCall(deadline());
    stream.write(told);
    stream.end();
    assert.deepStrictEqual(await end(stream), { sizes: [], code: 2, details: 'test status message' });
  },
  async 'every status code'({ t }) {
    for (let code = 1; code <= 16; code++) {
      const error = await unary(t, 'UnaryCall', { response_status: { code, message: `it is ${code}` } });
      assert.deepStrictEqual([error.code, error.details], [code, `it is ${code}`]);
    }
  },
  async 'special_status_message'({ t }) {
    const error = await unary(t, 'UnaryCall', { response_status: { code: 2, message: WHITESPACE } });
    assert.deepStrictEqual([error.code, error.details], [2, WHITESPACE]);
  },
  async 'unimplemented_method'({ t }) {
    assert.strictEqual((await unary(t, 'UnimplementedCall', {})).code, grpc.status.UNIMPLEMENTED);
  },
  async 'unimplemented_service'({ u }) {
    assert.strictEqual((await unary(u, 'UnimplementedCall', {})).code, grpc.status.UNIMPLEMENTED);
  },
  // Our methods take a token from metadata and give details of an error in a trailer; they echo nothing else.
  async 'custom_metadata: what nobody asked for does no harm'({ t }) {
    const metadata = new grpc.Metadata();
    metadata.set('x-grpc-test-echo-initial', 'test_initial_metadata_value');
    metadata.set('x-grpc-test-echo-trailing-bin', Buffer.from([0xab, 0xab, 0xab]));
    for (let i = 0; i < 50; i++) metadata.add('x-again-bin', Buffer.alloc(100, i));
    const answer = await unary(t, 'UnaryCall', { response_size: 10, ...payload(10) }, metadata);
    assert.strictEqual(answer.payload && answer.payload.body.length, 10);
    const stream = t.FullDuplexCall(metadata, deadline());
    stream.write({ response_parameters: [{ size: 10 }] });
    stream.end();
    assert.deepStrictEqual(await end(stream), { sizes: [10], code: grpc.status.OK, details: '' });
  },
  async 'custom_metadata: a token'({ v }) {
    const metadata = new grpc.Metadata();
    metadata.set('authorization', 'Bearer a-token');
    assert.strictEqual((await unary(v, 'Get', { id: 'token' }, metadata)).why, 'a-token');
  },
  async 'custom_metadata: a trailer of bytes'({ v }) {
    const error = await unary(v, 'Get', { id: MISSING, namespace: 'details' });
    const [trailer] = error.metadata.get('holdfast-error-details-bin');
    assert.strictEqual(error.code, grpc.status.FAILED_PRECONDITION);
    assert.deepStrictEqual(trailer, Buffer.concat([
      Buffer.from([10, Buffer.byteLength(MISSING)]), Buffer.from(MISSING), Buffer.from([18, 7]), Buffer.from('details')]));
  },
  async 'custom_metadata: more than the server takes'({ t }) {
    const metadata = new grpc.Metadata();
    metadata.set('x-big', 'b'.repeat(17000));
    const error = await unary(t, 'EmptyCall', {}, metadata);
    assert.strictEqual(error.code, grpc.status.RESOURCE_EXHAUSTED);
    assert.deepStrictEqual(await unary(t, 'EmptyCall', {}), {});
  },
};
