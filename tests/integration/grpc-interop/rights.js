// SPDX-License-Identifier: Apache-2.0
// usage: node rights.js grpc-js|curl DIR: tokens at a server with acl = true. DIR is as a server with --dev left it, and the
// file address in it says where the server is.
const { Site, GrpcDriver, CurlDriver } = require('./drivers');
const assert = require('assert');
const { execFileSync } = require('child_process');

const [which, dir] = process.argv.slice(2);
const site = new Site(dir);
const driver = which === 'curl' ? new CurlDriver(site) : new GrpcDriver(site);
const db = {
  volume: {
    id: 'db', type: 'NATIVE', profile: 'disk', source: { class: 'BLOCK', by_id: 'model-db' },
    requested_capabilities: [{ access_mode: 'SINGLE_NODE_WRITER', attachment_mode: 'FILE_SYSTEM' }],
  },
};
const readers = {
  policy: { name: 'readers', namespaces: [{ namespace: 'default', policy: 'read' }], plugin: 'list', node: 'read' },
};

// What a token that may read opens, and what stays shut; nobody has a certificate.
const opened = [
  ['Volumes.List', {}], ['Volumes.Get', { id: 'db' }], ['Allocations.List', {}], ['Plugins.List', {}], ['Nodes.List', {}],
  ['Operator.WhoAmI', {}],
];
const shut = [
  ['Volumes.Register', db], ['Volumes.Deregister', { id: 'db' }], ['Operator.Status', {}], ['Operator.ListTokens', {}],
  ['Operator.BeginBackup', {}], ['Nodes.SetEligibility', { id: 'n1' }], ['Operator.Gc', {}],
];

let failed = 0;

async function expect(code, method, ask, as, token) {
  const answer = await driver.call(method, ask, as, token);
  const who = token ? 'with a token' : `as ${as}`;
  if (answer.code === code) {
    console.log(`ok      rights by ${driver.name}: ${method} ${who}: ${code}`);
    return answer.answer;
  }
  failed++;
  console.log(`FAILED  rights by ${driver.name}: ${method} ${who}: ${answer.code}, not ${code}: ${answer.message}`);
  return null;
}

(async () => {
  const first = await expect('OK', 'Operator.BootstrapToken', {}, 'operator');
  await expect('FAILED_PRECONDITION', 'Operator.BootstrapToken', {}, 'operator'); // once
  assert.ok(first, 'without a management token nothing can be tried');
  const management = first.token.secret;
  await expect('OK', 'Volumes.Register', db, 'nobody', management);
  await expect('OK', 'Operator.PutPolicy', readers, 'nobody', management);
  const made = await expect('OK', 'Operator.CreateToken', { token: { name: 'r', type: 'CLIENT', policies: ['readers'] } },
    'nobody', management);
  const reader = made.token.secret;
  for (const [method, ask] of opened) await expect('OK', method, ask, 'nobody', reader);
  for (const [method, ask] of shut) await expect('PERMISSION_DENIED', method, ask, 'nobody', reader);
  await expect('UNAUTHENTICATED', 'Volumes.List', {}, 'nobody');
  await expect('UNAUTHENTICATED', 'Volumes.List', {}, 'nobody', 'not-a-token');
  await expect('OK', 'Operator.RevokeToken', { accessor: made.token.accessor }, 'nobody', management);
  await expect('UNAUTHENTICATED', 'Volumes.List', {}, 'nobody', reader);

  // the CA of this server: one token, one certificate, of a node that renews it until it is revoked
  const csr = () => execFileSync('openssl', ['req', '-new', '-newkey', 'ed25519', '-nodes', '-keyout', '/dev/null', '-subj',
    '/CN=x'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  const authority = await expect('OK', 'Operator.GetCa', {}, 'nobody', management);
  assert.ok(authority.key_id, 'the server has no CA');
  await expect('FAILED_PRECONDITION', 'Operator.ChangeCa', { finish: true }, 'nobody', management);
  const enrollment = await expect('OK', 'Operator.CreateEnrollment', { node: 'n7' }, 'nobody', management);
  const first7 = { node: 'n7', token: enrollment.token, csr: csr() };
  const enrolled = await expect('OK', 'Nodes.Enroll', first7, 'nobody');
  assert.ok(enrolled.identity.endsWith('/node/n7'), enrolled.identity);
  await expect('OK', 'Nodes.Enroll', first7, 'nobody'); // again, with the same key
  await expect('PERMISSION_DENIED', 'Nodes.Enroll', { ...first7, csr: csr() }, 'nobody');
  const issued = await expect('OK', 'Operator.IssueCertificate', { identity: 'operator/ann', csr: csr() }, 'nobody', management);
  assert.ok(issued.identity.endsWith('/operator/ann'), issued.identity);
  const renewed = await expect('OK', 'Nodes.Renew', { csr: csr() }, 'node');
  assert.ok(renewed.certificate.includes('BEGIN CERTIFICATE'), renewed.certificate);
  await expect('OK', 'Operator.RevokeCertificate', { serial: issued.serial, reason: 'test' }, 'nobody', management);
  driver.close();
  process.exit(failed ? 1 : 0);
})();
