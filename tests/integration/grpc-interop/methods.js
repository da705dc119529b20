// SPDX-License-Identifier: Apache-2.0
// usage: node methods.js grpc-js|curl DIR: tells the story of table.js to the server that was started with --dev DIR.
const { v1 } = require('./peer');
const { Site, GrpcDriver, CurlDriver } = require('./drivers');
const { Node } = require('./node');
const table = require('./table');
const assert = require('assert');
const crypto = require('crypto');

const UNTIL_MS = 20000;
const [which, dir] = process.argv.slice(2);
const site = new Site(dir);
const driver = which === 'curl' ? new CurlDriver(site) : new GrpcDriver(site);
const curl = new CurlDriver(site);
const kept = {};
const sleep = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
let failed = 0;

// Every method of the .proto files, as "Volumes.Get".
const methods = Object.entries(v1)
  .filter(([, type]) => type.service)
  .flatMap(([name, type]) => Object.keys(type.service).map((method) => `${name}.${method}`));

async function check(name, body) {
  try {
    await body();
    console.log(`ok      methods by ${driver.name}: ${name}`);
  } catch (error) {
    failed++;
    console.log(`FAILED  methods by ${driver.name}: ${name}: ${error.stack}`);
  }
}

async function ask(row) {
  const request = typeof row.ask === 'function' ? row.ask(kept) : row.ask || {};
  const token = kept[row.as];
  const answer = table.local.includes(row) ? await driver.local(row.method, request)
    : await driver.call(row.method, request, row.as || 'operator', token);
  const codes = [row.code || 'OK'].flat();
  assert.ok(codes.includes(answer.code), `${answer.code}: ${answer.message || JSON.stringify(answer.answer)}`);
  return answer;
}

// A refusal is as good as "not yet" while something is waited for: the server may be starting again.
async function askUntil(row) {
  const deadline = Date.now() + UNTIL_MS;
  for (;;) {
    const result = await ask(row).catch((error) => ({ error }));
    if (!result.error && row.until(result.answer)) return result;
    if (Date.now() > deadline) throw result.error || new Error(`still ${JSON.stringify(result.answer)}`);
    await sleep(50);
  }
}

async function tell(row) {
  const { answer } = row.until ? await askUntil(row) : await ask(row);
  if (answer && row.check) row.check(answer, kept);
  if (answer && row.keep) Object.assign(kept, row.keep(answer));
}

// What changes between two reads of the same.
const settled = (answer) => JSON.parse(JSON.stringify(answer, (key, value) => (/_ms$|^index$|^records$|^head$/.test(key)
  ? undefined : value)));

async function compareAddresses() {
  for (const [address, method, request] of table.addresses) {
    await check(`GET ${address}`, async () => {
      const typed = await curl.get(address, 'operator');
      const called = await curl.call(method, request, 'operator');
      assert.strictEqual(typed.code, 'OK', typed.message);
      assert.deepStrictEqual(settled(typed.answer), settled(called.answer));
    });
  }
}

// Watch sees what the story does.
function watch() {
  const client = new v1.Operator(site.address, site.credentials('operator'), site.options);
  const stream = client.Watch();
  const events = [];
  stream.on('data', (event) => events.push(event));
  stream.on('error', () => {});
  stream.write({ topics: ['volume', 'claim', 'node', 'allocation'], namespace: '*' });
  return { events, close: () => { stream.cancel(); client.close(); } };
}

async function checkStreams(node, watching, others) {
  await check('Nodes.Session: the plugin was called for every row that needs it', () => {
    ['create', 'attach', 'expand', 'node_expand', 'create_snapshot', 'list_snapshots', 'delete_snapshot', 'list_volumes',
      'detach', 'delete'].forEach((name) => assert.ok(node.calls.includes(name), `${name} was not called: ${node.calls}`));
    assert.ok(node.stopped.length > 0, 'the allocation was not stopped');
  });
  await check('Operator.Watch: every kind of object was told about, in order', () => {
    const topics = new Set(watching.events.map((event) => event.topic));
    ['volume', 'claim', 'node', 'allocation'].forEach((topic) => assert.ok(topics.has(topic), `nothing of ${topic}`));
    watching.events.reduce((last, event) => {
      assert.ok(BigInt(event.index) >= last, 'the index went back');
      return BigInt(event.index);
    }, 0n);
  });
  if (which === 'curl') {
    for (const method of table.streams) {
      await check(`${method}: JSON cannot stream, and says so`, async () => {
        // HTTP/1.1: over HTTP/2 the refusal is there before the body, and curl 7.88 takes that for a broken stream
        const answer = await driver.call(method, {}, 'operator', undefined, '--http1.1');
        assert.strictEqual(answer.code, 'UNIMPLEMENTED', answer.message);
      });
    }
  }
  others.forEach((close) => close());
}

(async () => {
  const rows = new Set([...table.rows, ...table.local].map((row) => row.method));
  await check('every method of the .proto files has a row', () => {
    const without = methods.filter((method) => !rows.has(method) && !table.streams.includes(method));
    assert.deepStrictEqual(without, []);
    const unknown = [...rows, ...table.streams].filter((method) => method && !methods.includes(method));
    assert.deepStrictEqual(unknown, []);
  });
  const node = new Node(site.address, site.credentials('node-n1'), site.options, 'n1', crypto.randomUUID());
  await check('Nodes.Session: a node is welcome', async () => {
    assert.strictEqual((await node.connect()).cluster, 'interop');
  });
  const watching = watch();
  for (const row of table.rows) {
    if (row.addresses) await compareAddresses();
    else {
      const detail = row.ask && typeof row.ask === 'object' ? ` ${JSON.stringify(row.ask).slice(0, 60)}` : '';
      await check(`${row.method}${row.as ? ` as ${row.as}` : ''}${detail}`, () => tell(row));
    }
  }
  for (const row of table.local) await check(row.method, () => tell(row));
  await checkStreams(node, watching, [watching.close, () => node.close(), () => driver.close()]);
  process.exit(failed ? 1 : 0);
})();
