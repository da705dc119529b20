// SPDX-License-Identifier: Apache-2.0
// Every method of the server, in the order of one story that two drivers tell: grpc-js, and curl with JSON. A method of
// the .proto files without a row fails the test.
//
// A row: method, ask (or a function of what was kept), and what is expected:
//   code   the gRPC code's name, OK when absent; a list when the moment decides
//   check  of the answer, throws
//   keep   what later rows need, from the answer
//   until  ask again until this is true of the answer: something else has to happen first
//   as     'operator' (absent), 'node', 'nobody', or the name of something kept that holds a token's secret
//   only   the driver, where the other one cannot
const assert = require('assert');
const crypto = require('crypto');
const { PLUGIN } = require('./node');

const ALLOC = '0192f3a1-0000-7000-837a-8eec1ce19687';
const ids = (list) => list.map((item) => item.id);
const orders = (more) => ({
  volume: {
    id: 'orders', type: 'CSI', plugin_id: PLUGIN, capacity_min: 1073741824, capacity_max: 4294967296,
    requested_capabilities: [{ access_mode: 'SINGLE_NODE_WRITER', attachment_mode: 'FILE_SYSTEM' }],
    parameters: { tier: 'gold' }, secrets: { key: 'hush' }, ...more,
  },
});
const db = (more) => ({
  volume: {
    id: 'db', type: 'NATIVE', profile: 'disk', source: { class: 'BLOCK', by_id: 'model-db' },
    requested_capabilities: [{ access_mode: 'SINGLE_NODE_WRITER', attachment_mode: 'FILE_SYSTEM' }], ...more,
  },
});
const allocation = (more) => ({
  allocation: {
    id: ALLOC, name: 'app', driver: 'none',
    volumes: [{ name: 'data', source: 'orders', access_mode: 'SINGLE_NODE_WRITER', attachment_mode: 'FILE_SYSTEM' }],
    ...more,
  },
});
const job = (more) => ({
  job: {
    id: 'web', type: 'JOB_TYPE_SERVICE',
    groups: [{ name: 'one', count: 1, allocation: { driver: 'none', volumes: allocation().allocation.volumes }, ...more }],
  },
});
const noSecret = (answer) => assert.ok(!JSON.stringify(answer).includes('hush'), 'a secret is shown');

exports.rows = [
  { method: 'Operator.Status', check: (a) => assert.strictEqual(a.cluster, 'interop') },
  { method: 'Operator.Status', as: 'nobody', code: ['OK', 'UNAUTHENTICATED'] },
  { method: 'Operator.WhoAmI', check: (a) => assert.ok(a.identity.includes('/operator/')) },

  // plugins and nodes, as the model node reports them
  { method: 'Nodes.List', until: (a) => ids(a.nodes).includes('n1') },
  { method: 'Nodes.Get', ask: { id: 'n1' }, check: (a) => assert.strictEqual(a.node.agent_version, 'model') },
  { method: 'Nodes.Get', ask: { id: 'n9' }, code: 'NOT_FOUND' },
  { method: 'Plugins.List', check: (a) => assert.ok(ids(a.plugins).includes(PLUGIN)) },
  { method: 'Plugins.Get', ask: { id: PLUGIN }, check: (a) => assert.strictEqual(a.plugin.provider, 'model.example') },
  { method: 'Plugins.Get', ask: { id: 'nothing' }, code: 'NOT_FOUND' },

  // volumes
  { method: 'Volumes.Register', ask: db(), check: (a) => assert.strictEqual(a.created, true) },
  { method: 'Volumes.Register', ask: db(), check: (a) => assert.strictEqual(a.created, false) },
  { method: 'Volumes.Register', ask: db({ id: 'a/b' }), code: 'INVALID_ARGUMENT' },
  { method: 'Volumes.Register', ask: db(), as: 'node', code: 'PERMISSION_DENIED' },
  { method: 'Volumes.Create', ask: orders(), check: (a) => {
    assert.ok(a.volume.external_id.startsWith('vol-'), a.volume.external_id);
    noSecret(a);
  } },
  { method: 'Volumes.Get', ask: { id: 'orders', why: true }, check: (a) => {
    assert.strictEqual(a.volume.capacity, '1073741824');
    assert.strictEqual(a.volume.secrets.key, '[redacted]');
    noSecret(a);
  } },
  { method: 'Volumes.Get', ask: { id: 'nothing' }, code: 'NOT_FOUND' },
  { method: 'Volumes.List', ask: { filter: 'plugin_id == model' },
    check: (a) => assert.deepStrictEqual(ids(a.volumes), ['orders']) },
  { method: 'Volumes.List', ask: { per_page: 1 }, check: (a) => assert.ok(a.next_token) },

  // an allocation that has one of them, where it may be
  { method: 'Nodes.SetEligibility', ask: { id: 'n1', eligible: false, reason: 'test' },
    check: (a) => assert.ok(a.node.ineligible) },
  { method: 'Allocations.Run', ask: { ...allocation(), dry_run: true }, code: 'FAILED_PRECONDITION' },
  { method: 'Allocations.Run', ask: allocation({ volumes: [] }), code: 'INVALID_ARGUMENT' },
  { method: 'Nodes.SetEligibility', ask: { id: 'n1', eligible: true },
    check: (a) => assert.ok(!a.node.ineligible) },
  { method: 'Allocations.Run', ask: { ...allocation(), dry_run: true },
    check: (a) => assert.strictEqual(a.allocation.node_id, 'n1') },
  { method: 'Allocations.Get', ask: { id: ALLOC }, code: 'NOT_FOUND' },
  { method: 'Allocations.Run', ask: allocation(), check: (a) => assert.strictEqual(a.allocation.id, ALLOC) },
  { method: 'Allocations.Get', ask: { id: ALLOC }, until: (a) => a.allocation.client_status === 'RUNNING' },
  { method: 'Allocations.List', ask: { node_id: 'n1' },
    check: (a) => assert.deepStrictEqual(ids(a.allocations), [ALLOC]) },
  { method: 'Volumes.Claim', as: 'node', // again: what it holds already is success
    ask: { volume_id: 'orders', allocation_id: ALLOC, volume_name: 'data' },
    check: (a) => {
      assert.strictEqual(a.claim.allocation_id, ALLOC);
      assert.deepStrictEqual(a.publish_context, { device: '/dev/model' });
    } },
  { method: 'Volumes.Claim', ask: { volume_id: 'orders', allocation_id: ALLOC, volume_name: 'data' },
    code: 'PERMISSION_DENIED' },
  { method: 'Allocations.OrderTask', as: 'node', ask: { id: ALLOC, task: 'web' }, code: 'NOT_FOUND' },
  { method: 'Allocations.OrderTask', ask: { id: ALLOC, task: 'web' }, code: 'PERMISSION_DENIED' },
  { method: 'Volumes.Expand', ask: { id: 'orders', capacity_min: 2147483648 },
    check: (a) => assert.strictEqual(a.volume.capacity, '2147483648') },
  { method: 'Volumes.Deregister', ask: { id: 'orders' }, code: 'FAILED_PRECONDITION' },
  { method: 'Volumes.Delete', ask: { id: 'orders' }, code: 'FAILED_PRECONDITION' },
  { method: 'Volumes.Detach', ask: { id: 'orders', node_id: 'n1', attest_reason: 'test', dry_run: true },
    code: ['OK', 'FAILED_PRECONDITION'] },
  { method: 'Nodes.Attest', ask: { id: 'n1', volumes: [{ namespace: 'default', id: 'orders' }], reason: 'test',
    dry_run: true }, code: ['OK', 'FAILED_PRECONDITION'] },
  { method: 'Nodes.Identify', ask: { id: 'n1', machine: 'none', reason: 'test' }, code: 'FAILED_PRECONDITION' },
  { method: 'Nodes.Purge', ask: { id: 'n1' }, code: 'FAILED_PRECONDITION' },

  // snapshots and what the provider has
  { method: 'Volumes.CreateSnapshot', ask: { volume_id: 'orders', name: 's1', parameters: { tier: 'cold' } },
    check: (a) => assert.strictEqual(a.snapshot.snapshot_id, 'snap-1') },
  { method: 'Volumes.ListSnapshots', check: (a) => assert.strictEqual(a.snapshots[0].name, 's1') },
  { method: 'Volumes.ListSnapshots', ask: { plugin_id: PLUGIN },
    check: (a) => assert.strictEqual(a.snapshots[0].snapshot_id, 'snap-1') },
  { method: 'Volumes.DeleteSnapshot', ask: { plugin_id: PLUGIN, snapshot_id: 'snap-1' } },
  { method: 'Volumes.ListExternal', ask: { plugin_id: PLUGIN },
    check: (a) => assert.deepStrictEqual(a.volumes.map((v) => v.external_id), ['vol-orders', 'vol-stray']) },

  // a job whose volume the allocation has
  { method: 'Jobs.Plan', ask: job(), check: (a) => assert.strictEqual(a.waits.length, 1) },
  { method: 'Jobs.Run', ask: job({ count: 2 }), code: 'INVALID_ARGUMENT' },
  { method: 'Jobs.Run', ask: job(), check: (a) => assert.strictEqual(a.job.version, '1') },
  { method: 'Jobs.Run', ask: { ...job({ count: 1 }), check_index: true }, code: 'ABORTED' },
  { method: 'Jobs.Get', ask: { id: 'web' }, check: (a) => {
    assert.strictEqual(a.state, 'pending');
    assert.notStrictEqual(a.waits[0].allocation_id, ALLOC); // it has its place in the queue of the volume
    assert.ok(a.waits[0].text.includes(ALLOC), a.waits[0].text);
  } },
  { method: 'Jobs.Get', ask: { id: 'nothing' }, code: 'NOT_FOUND' },
  { method: 'Jobs.List', check: (a) => assert.deepStrictEqual(ids(a.jobs), ['web']) },
  { method: 'Jobs.History', ask: { id: 'web' }, check: (a) => assert.strictEqual(a.versions.length, 1) },
  { method: 'Jobs.Scale', ask: { id: 'web', count: 0 }, check: (a) => assert.strictEqual(a.job.version, '2') },
  { method: 'Jobs.Restart', ask: { id: 'web', group: 'none' }, code: 'NOT_FOUND' },
  { method: 'Jobs.Restart', ask: { id: 'web' }, check: (a) => assert.strictEqual(a.job.version, '3') },
  { method: 'Jobs.Revert', ask: { id: 'web', version: 1 }, check: (a) => assert.strictEqual(a.reverted_to, '1') },
  { method: 'Jobs.Stop', ask: { id: 'web' }, check: (a) => assert.strictEqual(a.job.stop, true) },
  { method: 'Jobs.Stop', ask: { id: 'web', purge: true } },

  { addresses: true },

  // the end of the allocation, and of the volumes
  { method: 'Nodes.Drain', ask: { id: 'n1', reason: 'test' } },
  { method: 'Allocations.Get', ask: { id: ALLOC }, until: (a) => a.allocation.client_status === 'COMPLETE' },
  { method: 'Volumes.Get', ask: { id: 'orders' },
    until: (a) => a.volume.claims.every((claim) => claim.state === 'FREED') },
  { method: 'Nodes.Drain', ask: { id: 'n1', cancel: true } },
  { method: 'Nodes.SetEligibility', ask: { id: 'n1', eligible: true } },
  { method: 'Allocations.Stop', ask: { id: ALLOC } },
  { method: 'Allocations.Stop', ask: { id: '0192f3a0-0000-7000-8000-00000000000f' }, code: 'NOT_FOUND' },
  { method: 'Volumes.Detach', ask: { id: 'orders', node_id: 'n1' }, code: ['OK', 'FAILED_PRECONDITION'] },
  { method: 'Volumes.Delete', ask: { id: 'orders' } },
  { method: 'Volumes.Get', ask: { id: 'orders' }, code: 'NOT_FOUND' },
  { method: 'Volumes.Deregister', ask: { id: 'db' } },
  { method: 'Operator.ListMembers', check: (a) => assert.strictEqual(a.servers.length, 1) },
  { method: 'Operator.StepDown', code: 'FAILED_PRECONDITION' },
  { method: 'Operator.Gc', ask: { dry_run: true } },
  { method: 'Operator.ListAudit', check: (a) => assert.ok(a.records.some((r) => r.what === 'Volumes.Create')) },

  { method: 'Operator.Metrics', check: (a) => assert.ok(a.text.includes('\nholdfast_leads 1\n')) },
  { method: 'Operator.RotateKey', check: (a) => assert.notStrictEqual(a.in_use, a.next) },

  // fences, without a fencer
  { method: 'Fences.List', check: (a) => assert.deepStrictEqual(a.fencers, []) },
  { method: 'Fences.Plan', check: (a) => assert.deepStrictEqual(a.plans, []) },
  { method: 'Fences.Get', ask: { id: 'n1' }, code: 'NOT_FOUND' },
  { method: 'Fences.Test', ask: { id: 'n1' }, code: 'FAILED_PRECONDITION' },
  { method: 'Fences.Fence', ask: { id: 'n1', reason: 'test' }, code: 'FAILED_PRECONDITION' },
  { method: 'Fences.SetAutomatic', ask: { off: true, reason: 'test' } },
  { method: 'Fences.Plan', check: (a) => assert.strictEqual(a.switch.off, true) },

  // certificates, at a server that issues none; one that does is in rights.js
  { method: 'Operator.GetCa', check: (a) => assert.strictEqual(a.key_id, '') },
  { method: 'Operator.ChangeCa', ask: { finish: true }, code: 'FAILED_PRECONDITION' },
  { method: 'Operator.CreateEnrollment', ask: { node: 'n7' }, code: 'FAILED_PRECONDITION' },
  { method: 'Operator.IssueCertificate', ask: { identity: 'operator/ann', csr: 'none' }, code: 'FAILED_PRECONDITION' },
  { method: 'Nodes.Enroll', ask: { node: 'n7', token: 'none', csr: 'none' }, as: 'nobody', code: 'FAILED_PRECONDITION' },
  { method: 'Nodes.Renew', ask: { csr: 'none' }, as: 'node', code: 'FAILED_PRECONDITION' },
  { method: 'Nodes.Renew', ask: { csr: 'none' }, code: 'PERMISSION_DENIED' },
  { method: 'Operator.RevokeCertificate', ask: { identity: 'operator/ann', reason: 'test' },
    check: (a) => assert.strictEqual(a.revocation.identity, 'operator/ann') },
  { method: 'Operator.ListRevocations', check: (a) => assert.strictEqual(a.revocations.length, 1) },

  { method: 'Operator.ListTrails', check: (a) => assert.ok(Array.isArray(a.trails)) },
  { method: 'Operator.AcceptTrail', ask: { node_id: 'n9', reason: 'test' }, code: 'NOT_FOUND' },

  // who may do what. --dev takes no tokens: what they open is in rights.js
  { method: 'Operator.PutPolicy', ask: { policy: { name: 'readers', namespaces: [{ namespace: 'default', policy: 'read' }] } },
    check: (a) => assert.strictEqual(a.policy.name, 'readers') },
  { method: 'Operator.ListPolicies', check: (a) => assert.strictEqual(a.policies[0].name, 'readers') },
  { method: 'Operator.BootstrapToken', code: ['OK', 'FAILED_PRECONDITION'] },
  { method: 'Operator.CreateToken', ask: { token: { name: 'reader', type: 'CLIENT', policies: ['readers'] } },
    check: (a) => assert.ok(a.token.secret), keep: (a) => ({ reader: a.token.secret, accessor: a.token.accessor }) },
  { method: 'Operator.WhoAmI', as: 'reader', code: 'UNAUTHENTICATED' },
  { method: 'Operator.ListTokens', check: (a, kept) => {
    assert.ok(a.tokens.some((token) => token.accessor === kept.accessor));
    assert.ok(!JSON.stringify(a).includes(kept.reader), 'a secret is listed');
  } },
  { method: 'Operator.RevokeToken', ask: (kept) => ({ accessor: kept.accessor }) },
  { method: 'Operator.DeletePolicy', ask: { name: 'readers' } },

  // a copy of everything, and everything from the copy
  { method: 'Operator.BeginBackup', keep: (a) => ({ backup: a }) },
  { method: 'Operator.ReadBackup', ask: (kept) => ({ id: kept.backup.id }),
    keep: (a) => ({ part: Buffer.from(a.data, 'base64') }) },
  { method: 'Operator.BeginRestore',
    ask: (kept) => ({ size_bytes: kept.part.length,
      sha256: crypto.createHash('sha256').update(kept.part).digest('base64') }),
    keep: (a) => ({ restore: a.id }) },
  { method: 'Operator.WriteRestore',
    ask: (kept) => ({ id: kept.restore, data: kept.part.toString('base64') }),
    check: (a, kept) => assert.strictEqual(a.size_bytes, String(kept.part.length)) },
  { method: 'Operator.ApplyRestore', ask: (kept) => ({ id: kept.restore, reason: 'test' }),
    check: (a) => assert.notStrictEqual(a.epoch, '0') },
  { method: 'Operator.Status', until: (a) => a.epoch !== '0' },
];

// Streams are driven by grpc-js alone: JSON has one answer to one request.
exports.streams = ['Fences.Session', 'Nodes.Session', 'Nodes.TaskStream', 'Operator.Watch', 'Allocations.Exec', 'Allocations.Logs',
  'Allocations.Stats'];

// Of a real agent of node n2, over its socket.
exports.local = [
  { method: 'Agent.Status', until: (a) => a.node_id === 'n2' && a.cluster === 'interop' && !a.helper.running },
  { method: 'Agent.Drain', ask: () => ({ timeout_ms: 1000 }), until: (a) => a.drain && a.drain.accepting === false },
];

// What people type, and the method that answers the same. Asked in the middle of the story, at the row `addresses`.
exports.addresses = [
  ['/v1/volumes', 'Volumes.List', {}],
  ['/v1/volumes?prefix=o&per_page=1', 'Volumes.List', { prefix: 'o', per_page: 1 }],
  ['/v1/volume/csi/orders', 'Volumes.Get', { id: 'orders' }],
  [`/v1/volumes/external?plugin_id=${PLUGIN}`, 'Volumes.ListExternal', { plugin_id: PLUGIN }],
  ['/v1/volumes/snapshot', 'Volumes.ListSnapshots', {}],
  ['/v1/plugins', 'Plugins.List', {}],
  [`/v1/plugin/csi/${PLUGIN}`, 'Plugins.Get', { id: PLUGIN }],
  ['/v1/nodes', 'Nodes.List', {}],
  ['/v1/node/n1', 'Nodes.Get', { id: 'n1' }],
  ['/v1/allocations', 'Allocations.List', {}],
  [`/v1/allocation/${ALLOC}`, 'Allocations.Get', { id: ALLOC }],
  ['/v1/status', 'Operator.Status', {}],
  ['/v1/operator/members', 'Operator.ListMembers', {}],
  ['/v1/operator/audit', 'Operator.ListAudit', {}],
  ['/v1/operator/trails', 'Operator.ListTrails', {}],
];
