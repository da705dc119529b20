// SPDX-License-Identifier: Apache-2.0
// A node of the cluster that is not ours: keeps a session over grpc-js, runs a model of a CSI plugin, and says what it
// is told. Everything it was asked is in `calls`.
const { v1 } = require('./peer');

const PLUGIN = 'model';

// Answers of the plugin, by the name of the request in PluginCall.
const answers = {
  attach: () => ({ publish_context: { device: '/dev/model' } }),
  detach: () => ({}),
  validate: () => ({ confirmed: true }),
  create: (ask) => ({ external_id: `vol-${ask.name}`, capacity: ask.capacity_min, context: { made: 'yes' } }),
  delete: () => ({}),
  expand: (ask) => ({ capacity: ask.capacity_min, node_expansion_required: true }),
  list_volumes: () => ({ volumes: [{ external_id: 'vol-orders', capacity: 1024 }, { external_id: 'vol-stray' }] }),
  create_snapshot: (ask) => ({ snapshot: snapshot(ask.external_id) }),
  delete_snapshot: () => ({}),
  list_snapshots: () => ({ snapshots: [snapshot('vol-orders')] }),
  node_expand: (ask) => ({ bytes: ask.capacity_min }),
};

const snapshot = (source) => ({
  snapshot_id: 'snap-1', external_source_id: source, size_bytes: 2048, create_time_ms: 1700000000000, ready: true,
});

const half = (...abilities) => Object.fromEntries([['healthy', true], ...abilities.map((name) => [name, true])]);

class Node {
  constructor(target, credentials, options, id, bootId) {
    Object.assign(this, { id, bootId, calls: [], claims: new Map(), stopped: [], closed: null });
    this.nodes = new v1.Nodes(target, credentials, options);
    this.volumes = new v1.Volumes(target, credentials, options);
  }

  // Resolves with the server's welcome.
  connect() {
    this.stream = this.nodes.Session();
    this.stream.on('error', () => {});
    this.stream.on('status', (status) => { this.closed = status; });
    const welcomed = new Promise((resolve, reject) => {
      this.stream.on('data', (down) => {
        if (down.message === 'welcome') resolve(down.welcome);
        else this.take(down);
      });
      this.stream.on('status', (status) => reject(new Error(`the session ended: ${status.details}`)));
    });
    this.stream.write({
      hello: {
        node_id: this.id, boot_id: this.bootId, agent_version: 'model', kernel: 'model', adoption_complete: true,
        fingerprint: {
          plugins: [
            { plugin_id: 'native', profile: 'disk', class: 'BLOCK', healthy: true },
            {
              plugin_id: PLUGIN, healthy: true, provider: 'model.example', provider_version: '1', controller_required: true,
              controller: half('create_delete', 'attach_detach', 'list_volumes', 'create_delete_snapshot', 'list_snapshots',
                'expand', 'clone', 'get_volume', 'single_node_multi_writer'),
              node: { provider_node_id: `i-${this.id}`, max_volumes: 16, stage: true, expand: true },
            },
          ],
        },
      },
    });
    return welcomed;
  }

  take(down) {
    const what = down.message;
    if (what === 'call') this.answer(down.call);
    else if (what === 'run') this.run(down.run.alloc);
    else if (what === 'stop') this.stop(down.stop.alloc_id);
    else if (what === 'release') this.release(down.release.claim);
    else if (what === 'report') this.stream.write({ report: { epoch: down.report.epoch } });
  }

  answer(call) {
    const name = call.request;
    this.calls.push(name);
    this.stream.write({ reply: { call_id: call.call_id, [name]: answers[name](call[name]) } });
  }

  // As an agent does: a claim for each volume, the receipt of its mount, then the allocation runs.
  async run(alloc) {
    for (const volume of alloc.volumes) {
      const answer = await this.claim({ volume_id: volume.source, namespace: alloc.namespace, allocation_id: alloc.id,
        volume_name: volume.name });
      this.receipt(answer.claim, { mounted: true });
      this.claims.set(answer.claim.id, answer.claim);
    }
    this.stream.write({ alloc: { alloc_id: alloc.id, client_status: 'RUNNING' } });
  }

  claim(request) {
    return new Promise((resolve, reject) => {
      this.volumes.Claim(request, { deadline: Date.now() + 10000 },
        (error, answer) => (error ? reject(error) : resolve(answer)));
    });
  }

  stop(allocId) {
    this.stopped.push(allocId);
    for (const claim of this.claims.values()) if (claim.allocation_id === allocId) this.release(claim);
    this.stream.write({ alloc: { alloc_id: allocId, client_status: 'COMPLETE' } });
  }

  release(claim) {
    this.receipt(claim, { released: true });
    this.claims.delete(claim.id);
  }

  receipt(claim, what) {
    this.stream.write({ receipt: { claim_id: claim.id, boot_id: this.bootId, generation: claim.generation, ...what } });
  }

  close() {
    if (this.stream) this.stream.cancel();
    this.nodes.close();
    this.volumes.close();
  }
}

module.exports = { Node, PLUGIN };
