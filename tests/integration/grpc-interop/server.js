// SPDX-License-Identifier: Apache-2.0
// usage: node server.js DIR: serves DIR/js.sock, and TLS on a port that is printed.
const { grpc, v1, read, MISSING } = require('./peer');

const dir = process.argv[2];
const server = new grpc.Server({ 'grpc.max_receive_message_length': 8 << 20 });

server.addService(v1.Volumes.service, {
  Get(call, done) {
    const { id } = call.request;
    if (id === 'missing') return done({ code: grpc.status.NOT_FOUND, details: MISSING });
    if (id === 'hold') return undefined;
    if (id === 'huge') return done(null, { why: 'w'.repeat(3000000) });
    return done(null, { volume: { id } });
  },
});
server.addService(v1.Nodes.service, {
  Session(call) {
    call.sendMetadata(new grpc.Metadata());
    call.on('data', (up) => {
      const text = up.heartbeat.boot_id;
      if (text === 'finish') return call.end();
      if (text === 'fail') return call.emit('error', { code: grpc.status.ABORTED, details: 'as you wish' });
      return call.write({ welcome: { server_version: text } });
    });
    call.on('end', () => call.end());
    call.on('error', () => {});
  },
});

const tls = grpc.ServerCredentials.createSsl(
  read(dir, 'ca.crt'), [{ private_key: read(dir, 'server.key'), cert_chain: read(dir, 'server.crt') }], true);
const bind = (address, credentials) => new Promise((resolve, reject) => {
  server.bindAsync(address, credentials, (error, port) => (error ? reject(error) : resolve(port)));
});
(async () => {
  await bind(`unix:${dir}/js.sock`, grpc.ServerCredentials.createInsecure());
  console.log('ready', await bind('127.0.0.1:0', tls));
})();
process.on('SIGTERM', () => process.exit(0));
