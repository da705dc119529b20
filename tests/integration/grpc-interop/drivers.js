// SPDX-License-Identifier: Apache-2.0
// Two ways to ask the server the same: each gives { code, answer, message } with the gRPC code's name.
const { grpc, v1 } = require('./peer');
const { execFile } = require('child_process');
const fs = require('fs');
const path = require('path');

const LIMIT_MS = 20000;
const names = Object.fromEntries(Object.entries(grpc.status).map(([name, number]) => [number, name]));

// Where the server is and who asks: the files of a server started with --dev.
class Site {
  constructor(dir) {
    this.dir = dir;
    this.options = { 'grpc.ssl_target_name_override': 'localhost', 'grpc.max_receive_message_length': 8 << 20 };
  }

  // It may be another one when the server has started again.
  get address() {
    return fs.readFileSync(path.join(this.dir, 'address'), 'utf8').trim();
  }

  file(name) {
    return path.join(this.dir, 'tls', name);
  }

  credentials(who) {
    const read = (name) => fs.readFileSync(this.file(name));
    return who === 'nobody' ? grpc.credentials.createSsl(read('ca.pem'))
      : grpc.credentials.createSsl(read('ca.pem'), read(`${who}.key`), read(`${who}.pem`));
  }
}

// The certificate that a row's `as` stands for; a token comes with an operator's certificate or none.
const certificate = (as) => ({ node: 'node-n1', nobody: 'nobody' })[as] || 'operator';

class GrpcDriver {
  constructor(site) {
    Object.assign(this, { name: 'grpc-js', site, clients: new Map() });
  }

  client(service, who) {
    const key = `${service} ${who} ${this.site.address}`;
    if (!this.clients.has(key)) {
      this.clients.set(key, new v1[service](this.site.address, this.site.credentials(who), this.site.options));
    }
    return this.clients.get(key);
  }

  // The socket of the agent has neither names nor certificates.
  local(method, ask) {
    const [service, name] = method.split('.');
    const client = new v1[service](`unix:${this.site.dir}/n2/agent.sock`, grpc.credentials.createInsecure());
    return new Promise((resolve) => {
      client[name](ask, { deadline: Date.now() + LIMIT_MS }, (error, answer) => {
        client.close();
        resolve(error ? { code: names[error.code], message: error.details } : { code: 'OK', answer });
      });
    });
  }

  call(method, ask, as, token) {
    const [service, name] = method.split('.');
    const metadata = new grpc.Metadata();
    if (token) metadata.set('authorization', `Bearer ${token}`);
    return new Promise((resolve) => {
      this.client(service, certificate(as))[name](ask, metadata, { deadline: Date.now() + LIMIT_MS },
        (error, answer) => resolve(error ? { code: names[error.code], message: error.details } : { code: 'OK', answer }));
    });
  }

  close() {
    this.clients.forEach((client) => client.close());
  }
}

class CurlDriver {
  constructor(site) {
    Object.assign(this, { name: 'curl', site });
  }

  run(args, input) {
    return new Promise((resolve, reject) => {
      const child = execFile('curl', ['-sS', '--max-time', String(LIMIT_MS / 1000), '--cacert', this.site.file('ca.pem'),
        ...args], { maxBuffer: 8 << 20 }, (error, out, complaint) => (error ? reject(new Error(complaint)) : resolve(out)));
      child.stdin.end(input);
    });
  }

  who(as) {
    const who = certificate(as);
    return who === 'nobody' ? [] : ['--cert', this.site.file(`${who}.pem`), '--key', this.site.file(`${who}.key`)];
  }

  // Tokens go by way of standard input, so that they are in no list of processes.
  async call(method, ask, as, token, version = '--http2') {
    const body = path.join(this.site.dir, 'curl-body.json');
    fs.writeFileSync(body, JSON.stringify(ask));
    const out = await this.run([...this.who(as), version, '-H', 'content-type: application/json', '-H', '@-',
      '--data-binary', `@${body}`, '-w', '\n%{http_code}',
      `https://${this.site.address}/holdfast.v1.${method.replace('.', '/')}`],
    token ? `authorization: Bearer ${token}\n` : '');
    return CurlDriver.read(out);
  }

  async local(method, ask) {
    const out = await this.run(['--unix-socket', path.join(this.site.dir, 'n2/agent.sock'), '--http2-prior-knowledge',
      '-H', 'content-type: application/json', '--data-binary', '@-', '-w', '\n%{http_code}',
      `http://localhost/holdfast.v1.${method.replace('.', '/')}`], JSON.stringify(ask));
    return CurlDriver.read(out);
  }

  async get(address, as) {
    return CurlDriver.read(await this.run([...this.who(as), '-w', '\n%{http_code}', `https://${this.site.address}${address}`]));
  }

  static read(out) {
    const at = out.lastIndexOf('\n');
    const http = Number(out.slice(at + 1));
    const answer = JSON.parse(out.slice(0, at));
    return http === 200 ? { code: 'OK', answer } : { code: answer.code.toUpperCase(), message: answer.message, http };
  }

  close() {}
}

module.exports = { Site, GrpcDriver, CurlDriver };
