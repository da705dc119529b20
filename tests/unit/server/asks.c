/* SPDX-License-Identifier: Apache-2.0 */
#include "asks.h"

#include "unit.h"

#define NODES &holdfast__v1__nodes__descriptor

/* protobuf-c wants writable texts. */
struct texts {
	char id[256], volume[256], reason[512];
};

static void put(char *dst, size_t size, const char *src)
{
	assert_int_equal(str_copy(dst, size, src), 0);
}

Holdfast__V1__GetNodeResponse *get_node(struct fixture *f, const char *id, struct error *err)
{
	Holdfast__V1__GetNodeRequest request = HOLDFAST__V1__GET_NODE_REQUEST__INIT;
	ProtobufCMessage *response = NULL;
	struct texts texts;

	put(texts.id, sizeof(texts.id), id);
	request.id = texts.id;
	(void)call(&f->operator, NODES, "Get", &request.base, &response, err);
	return (Holdfast__V1__GetNodeResponse *)response;
}

Holdfast__V1__GetPluginResponse *get_plugin(struct fixture *f, const char *id, struct error *err)
{
	Holdfast__V1__GetPluginRequest request = HOLDFAST__V1__GET_PLUGIN_REQUEST__INIT;
	ProtobufCMessage *response = NULL;
	struct texts texts;

	put(texts.id, sizeof(texts.id), id);
	request.id = texts.id;
	(void)call(&f->operator, & holdfast__v1__plugins__descriptor, "Get", &request.base, &response, err);
	return (Holdfast__V1__GetPluginResponse *)response;
}

Holdfast__V1__DrainNodeResponse *drain_node(struct fixture *f, const char *id, bool cancel, struct error *err)
{
	Holdfast__V1__DrainNodeRequest request = HOLDFAST__V1__DRAIN_NODE_REQUEST__INIT;
	ProtobufCMessage *response = NULL;
	struct texts texts;
	char reason[] = "new disks";

	put(texts.id, sizeof(texts.id), id);
	request.id = texts.id;
	request.reason = reason;
	request.cancel = cancel;
	(void)call(&f->operator, NODES, "Drain", &request.base, &response, err);
	return (Holdfast__V1__DrainNodeResponse *)response;
}

Holdfast__V1__NodeStatus status_of(struct fixture *f, const char *node)
{
	Holdfast__V1__GetNodeResponse *response = get_node(f, node, NULL);
	Holdfast__V1__NodeStatus status;

	assert_non_null(response);
	status = response->node->status;
	holdfast__v1__get_node_response__free_unpacked(response, NULL);
	return status;
}

enum status set_eligible(struct fixture *f, const char *node, bool eligible, struct error *err)
{
	Holdfast__V1__SetEligibilityRequest request = HOLDFAST__V1__SET_ELIGIBILITY_REQUEST__INIT;
	struct texts texts;
	char reason[] = "looks odd";

	put(texts.id, sizeof(texts.id), node);
	request.id = texts.id;
	request.reason = reason;
	request.eligible = eligible;
	return call(&f->operator, NODES, "SetEligibility", &request.base, NULL, err);
}

/* The answer names what the former machine holds. */
static void expect_held_by_former(struct fixture *f, const char *node,
				  const Holdfast__V1__IdentifyNodeResponse *response)
{
	const struct claim_entry *claim;
	size_t n = 0;

	LIST_FOREACH (claim, &state_node(&f->server->state, node)->claims, of_node)
		n += claim_is_live(&claim->claim) && claim->claim.other_machine;
	assert_int_equal(response->n_claims, n);
}

enum status identify(struct fixture *f, const char *node, const char *machine, struct error *err)
{
	ProtobufCMessage *response = NULL;
	enum status status = STATUS_OK;
	Holdfast__V1__IdentifyNodeRequest request = HOLDFAST__V1__IDENTIFY_NODE_REQUEST__INIT;
	char reason[] = "new mainboard";
	char name[80];
	struct texts texts;

	put(texts.id, sizeof(texts.id), node);
	put(name, sizeof(name), machine);
	request.id = texts.id;
	request.machine = name;
	request.reason = reason;
	TRY(call(&f->operator, NODES, "Identify", &request.base, &response, err));
	expect_held_by_former(f, node, (Holdfast__V1__IdentifyNodeResponse *)response);
	protobuf_c_message_free_unpacked(response, NULL);
	return status;
}

enum status purge(struct fixture *f, const char *node, struct error *err)
{
	Holdfast__V1__PurgeNodeRequest request = HOLDFAST__V1__PURGE_NODE_REQUEST__INIT;
	struct texts texts;

	put(texts.id, sizeof(texts.id), node);
	request.id = texts.id;
	request.keep_certificate = true; /* for the tests in which it comes back */
	return call(&f->operator, NODES, "Purge", &request.base, NULL, err);
}

enum status purge_unknown(struct fixture *f, struct error *err)
{
	Holdfast__V1__PurgeNodeRequest request = HOLDFAST__V1__PURGE_NODE_REQUEST__INIT;

	request.unknown = true;
	return call(&f->operator, NODES, "Purge", &request.base, NULL, err);
}

enum status attest(struct fixture *f, const char *node, const char *volume, const char *reason,
		   uint64_t valid_ms, bool dry_run, Holdfast__V1__AttestNodeResponse **ret, struct error *err)
{
	Holdfast__V1__AttestNodeRequest request = HOLDFAST__V1__ATTEST_NODE_REQUEST__INIT;
	Holdfast__V1__VolumeRef ref = HOLDFAST__V1__VOLUME_REF__INIT;
	Holdfast__V1__VolumeRef *refs[] = {&ref};
	struct texts texts;

	put(texts.id, sizeof(texts.id), node);
	put(texts.volume, sizeof(texts.volume), volume ? volume : "db");
	put(texts.reason, sizeof(texts.reason), reason);
	ref.id = texts.volume;
	request.id = texts.id;
	request.reason = texts.reason;
	request.volumes = refs;
	request.n_volumes = 1;
	request.valid_ms = valid_ms;
	request.dry_run = dry_run;
	return call(&f->operator, NODES, "Attest", &request.base, (ProtobufCMessage **)ret, err);
}

void lose(struct fixture *f, struct fake_node *node)
{
	fake_node_disconnect(node);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, node->id)));
	settle(f);
}
