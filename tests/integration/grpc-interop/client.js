// SPDX-License-Identifier: Apache-2.0
// usage: node client.js DIR PORT: checks the server at DIR/c.sock and at PORT with TLS.
const { grpc, v1, testing, read, MISSING } = require('./peer');
const cases = require('./cases');
const assert = require('assert');

const [dir, port] = process.argv.slice(2);
const NODE = 'holdfast://interop/node/n1';
const deadline = (ms = 10000) => ({ deadline: Date.now() + ms });

const get = (client, id, options = deadline()) => new Promise((resolve) => {
  client.Get({ id }, options, (error, answer) => resolve(error || answer));
});

const session = (client, texts, options) => new Promise((resolve) => {
  const stream = client.Session(options);
  const got = [];
  let opened = false;
  stream.on('metadata', () => { opened = true; });
  stream.on('data', (down) => got.push(down.welcome.server_version));
  stream.on('error', () => {});
  stream.on('status', (status) => resolve({ got, opened, code: status.code, details: status.details }));
  texts.forEach((text) => stream.write({ heartbeat: { boot_id: text } }));
  if (options && options.halfClose) stream.end();
});

// JSON through Node's own HTTP/2, on the same socket
const json = (authority, options, body) => new Promise((resolve, reject) => {
  const connection = require('http2').connect(authority, options);
  connection.on('error', reject);
  const request = connection.request({
    ':method': 'POST', ':path': '/holdfast.v1.Volumes/Get', 'content-type': 'application/json',
  });
  let status; let text = '';
  request.on('response', (headers) => { status = headers[':status']; });
  request.on('data', (chunk) => { text += chunk; });
  request.on('end', () => { connection.close(); resolve({ status, body: JSON.parse(text) }); });
  request.end(JSON.stringify(body));
});

const checks = {
  async 'a unary call'({ v }) {
    assert.strictEqual((await get(v, 'db')).volume.id, 'db');
  },
  async 'a thousand calls at once'({ v }) {
    const answers = await Promise.all(Array.from({ length: 1000 }, (_, i) => get(v, `v${i}`)));
    answers.forEach((answer, i) => assert.strictEqual(answer.volume && answer.volume.id, `v${i}`));
  },
  async 'the identity'({ v, identity }) {
    assert.strictEqual((await get(v, 'whoami')).why, identity);
  },
  async 'an error with odd characters'({ v }) {
    const error = await get(v, 'missing');
    assert.strictEqual(error.code, grpc.status.NOT_FOUND);
    assert.strictEqual(error.details, MISSING);
  },
  async 'an unknown method'({ v }) {
    const error = await new Promise((resolve) => v.List({}, deadline(), resolve));
    assert.strictEqual(error.code, grpc.status.UNIMPLEMENTED);
    assert.ok(error.details.includes('/holdfast.v1.Volumes/List'));
  },
  async 'a deadline'({ v }) {
    assert.strictEqual((await get(v, 'hold', deadline(100))).code, grpc.status.DEADLINE_EXCEEDED);
  },
  async 'an answer of 3 MB'({ v }) {
    assert.strictEqual((await get(v, 'huge')).why.length, 3000000);
  },
  async 'a request at and above the limit'({ v }) {
    assert.ok((await get(v, 'x'.repeat(1048576 - 4))).volume);
    assert.strictEqual((await get(v, 'x'.repeat(1048576 - 3))).code, grpc.status.RESOURCE_EXHAUSTED);
  },
  async 'a compressed request'({ v }) {
    const compressing = new v1.Volumes(v.getChannel().getTarget(), v.credentials, {
      ...big, 'grpc.default_compression_algorithm': 2,
    });
    const error = await new Promise((resolve) => compressing.Get({ id: 'db' }, deadline(), (e) => resolve(e)));
    assert.strictEqual(error.code, grpc.status.UNIMPLEMENTED);
    compressing.close();
  },
  async 'a stream that ends after half-closing'({ n }) {
    const texts = Array.from({ length: 200 }, (_, i) => `m${i}`);
    const end = await session(n, texts, { ...deadline(), halfClose: true });
    assert.deepStrictEqual(end.got, texts);
    assert.strictEqual(end.code, grpc.status.OK);
  },
  async 'a stream that the server ends'({ n }) {
    const end = await session(n, ['a', 'finish'], deadline());
    assert.deepStrictEqual(end.got, ['a']);
    assert.ok(end.opened);
    assert.strictEqual(end.code, grpc.status.OK);
  },
  async 'a stream that the server fails'({ n }) {
    const end = await session(n, ['fail'], deadline());
    assert.strictEqual(end.code, grpc.status.ABORTED);
    assert.strictEqual(end.details, 'as you wish');
  },
  async 'the deadline of a stream'({ n }) {
    assert.strictEqual((await session(n, ['a'], deadline(100))).code, grpc.status.DEADLINE_EXCEEDED);
  },
  async 'a cancelled stream leaves the connection alone'({ v, n }) {
    const stream = n.Session();
    stream.on('error', () => {});
    stream.write({ heartbeat: { boot_id: 'a' } });
    await new Promise((resolve) => { stream.on('data', resolve); });
    stream.cancel();
    assert.strictEqual((await get(v, 'db')).volume.id, 'db');
  },
  async 'JSON on the same socket'({ h2 }) {
    const ok = await json(...h2, { id: 'db' });
    assert.strictEqual(ok.status, 200);
    assert.strictEqual(ok.body.volume.id, 'db');
    const bad = await json(...h2, { id: 'missing' });
    assert.deepStrictEqual(bad, { status: 404, body: { code: 'not_found', message: MISSING } });
  },
};

const [ca, key, cert] = ['ca.crt', 'node.key', 'node.crt'].map((file) => read(dir, file));
const unix = [`unix:${dir}/c.sock`, grpc.credentials.createInsecure()];
const tls = [`127.0.0.1:${port}`, grpc.credentials.createSsl(ca, key, cert)];
const big = { 'grpc.max_receive_message_length': 8 << 20, 'grpc.ssl_target_name_override': 'localhost' };

(async () => {
  let failed = 0;
  for (const [where, target, identity, h2] of [
    ['unix', unix, '', ['http://localhost', { createConnection: () => require('net').connect(`${dir}/c.sock`) }]],
    ['TLS', tls, NODE, [`https://127.0.0.1:${port}`, { ca, key, cert, servername: 'localhost' }]],
  ]) {
    const peer = {
      v: new v1.Volumes(...target, big),
      n: new v1.Nodes(...target, big),
      t: new testing.TestService(...target, big),
      u: new testing.UnimplementedService(...target, big),
      identity,
      h2,
    };
    peer.v.credentials = target[1];
    for (const [name, check] of Object.entries({ ...checks, ...cases })) {
      try {
        await check(peer);
        console.log(`ok      grpc-js to us, ${where}: ${name}`);
      } catch (error) {
        failed++;
        console.log(`FAILED  grpc-js to us, ${where}: ${name}: ${error.stack}`);
      }
    }
    [peer.v, peer.n, peer.t, peer.u].forEach((client) => client.close());
  }
  process.exit(failed ? 1 : 0);
})();
