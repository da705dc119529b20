// SPDX-License-Identifier: Apache-2.0
// A CSI driver on grpc-js: see README.md. What a driver does is call.py's; here is the gRPC.
//
// usage: node grpc_js_plugin.js STATE NODE KIND PROTOS      CSI_ENDPOINT says where to listen
const { spawn, execFileSync } = require('child_process');
const fs = require('fs');
const http2 = require('http2');
const path = require('path');

// grpc-js keeps the request's headers to itself: note them before it sees the stream.
const headersOf = new WeakMap();
const createServer = http2.createServer;
http2.createServer = (options) => {
  const server = createServer(options);
  server.prependListener('stream', (stream, headers) => headersOf.set(stream, headers));
  return server;
};
const modules = process.env.HOLDFAST_NODE_MODULES;
const grpc = require(path.join(modules, '@grpc/grpc-js'));
const loader = require(path.join(modules, '@grpc/proto-loader'));

const [state, node, kind, protos] = process.argv.slice(2);
const PYTHON = '/usr/bin/python3';
const CALL = path.join(__dirname, 'call.py');
const GARBAGE = Buffer.from('ffffffffff', 'hex'); // no protobuf: a tag that does not end
const OVERSIZE = 8 << 20;
const SHUTDOWN_MS = 500;

const endpoint = process.env.CSI_ENDPOINT.replace(/^unix:(\/\/)?/, '');
const v1 = grpc.loadPackageDefinition(loader.loadSync('csi/v1/csi.proto', {
  includeDirs: [protos], keepCase: true, longs: String, enums: String, defaults: false, oneofs: false,
})).csi.v1;
let serial = 0;

// call.py dies with us: whoever dies in the middle of a call leaves nobody who finishes it.
function take(call, done) {
  const child = spawn('setpriv', ['--pdeathsig', 'KILL', PYTHON, '-B', CALL, state, 'take'],
    { stdio: ['pipe', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.on('data', (chunk) => { text += chunk; });
  child.on('close', (code) => done(code === 0 ? JSON.parse(text)
    : { code: grpc.status.INTERNAL, text: `call.py ended with ${code}`, response: null }));
  child.stdin.end(JSON.stringify(call));
}

// From the JSON form of protobuf, which is what call.py speaks, to protobuf.js's own.
function shape(value, key) {
  if (key === 'ready' || key === 'maximum_volume_size' || key === 'minimum_volume_size') return { value };
  if (key === 'creation_time') return { seconds: Date.parse(value) / 1000, nanos: 0 };
  if (Array.isArray(value)) return value.map((item) => shape(item));
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, shape(item, name)]));
}

// An unknown field (of number 1000) of so many bytes, which every receiver skips.
function filler(size) {
  const varint = [];
  let rest = size;
  for (; rest > 0x7f; rest >>= 7) varint.push((rest & 0x7f) | 0x80);
  return Buffer.concat([Buffer.from([0xc2, 0x3e, ...varint, rest]), Buffer.alloc(size)]);
}

const die = () => process.kill(process.pid, 'SIGKILL');
const close = ({ stream }) => stream.session.destroy();
// What orders for the wire do, given the base of the call below grpc-js's public face.
const WIRE = {
  die,
  'die-after': die,
  close,
  'close-after': close,
  twice: ({ base, message, done }) => base.sendMessage(message, () => done(null, message)),
  nothing: ({ base }) => base.sendStatus({ code: 0, details: 'OK', metadata: null }),
  oversize: ({ message, done, wire }) => done(null, Buffer.concat([message, filler(wire.bytes || OVERSIZE)])),
  malformed: ({ done }) => done(null, GARBAGE),
  truncated: ({ base, stream }) => {
    base.sendMetadata(new grpc.Metadata());
    stream.write(Buffer.from([0, 0, 0, 1, 0, 1, 2, 3])); // 256 bytes are promised, 3 come
    base.sendStatus({ code: 0, details: 'OK', metadata: null });
  },
  reset: ({ stream, wire }) => stream.close(wire.code ?? http2.constants.NGHTTP2_INTERNAL_ERROR),
  http: ({ stream, wire }) => {
    stream.respond({ ':status': wire.status ?? 503, 'content-type': 'text/plain' });
    stream.end('busy');
  },
};

function answer(method, encode, call, done) {
  const base = call.call;
  const { stream } = base;
  serial += 1;
  const id = `${process.pid}-${serial}`;
  call.on('cancelled', () => fs.rm(path.join(state, 'inflight', id), { force: true }, () => {}));
  const authority = (headersOf.get(stream) || {})[':authority'] ?? '';
  take({ id, pid: process.pid, node, method, request: call.request, authority }, (outcome) => {
    const wire = outcome.wire || {};
    if (outcome.code !== 0) return done({ code: outcome.code, details: outcome.text });
    const message = encode(shape(outcome.response || {}));
    const act = WIRE[wire.do];
    return act ? act({ base, stream, message, done, wire }) : done(null, message);
  });
}

const { wishes, services, kinds } = JSON.parse(execFileSync(PYTHON, ['-B', CALL, state, 'begin', node]));
const server = new grpc.Server({ 'grpc.max_send_message_length': -1, 'grpc.max_receive_message_length': 4 << 20 });
for (const name of kinds[kind]) {
  const definition = {};
  const handlers = {};
  for (const method of services[name]) {
    const one = v1[name].service[method];
    definition[method] = { ...one, responseSerialize: (message) => message };
    handlers[method] = (call, done) => answer(method, one.responseSerialize, call, done);
  }
  server.addService(definition, handlers);
}
fs.rmSync(endpoint, { force: true });
server.bindAsync(`unix:${endpoint}`, grpc.ServerCredentials.createInsecure(), (error) => {
  if (error) throw error;
  if (wishes.quirks.includes('P17')) fs.chmodSync(endpoint, 0o600);
  console.log('ready');
});
process.on('SIGTERM', () => {
  server.tryShutdown(() => process.exit(0));
  setTimeout(() => process.exit(0), SHUTDOWN_MS);
});
