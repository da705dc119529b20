/* SPDX-License-Identifier: Apache-2.0 */
#include "asks.h"

#include "unit.h"

#include "base/str.h"
#include "node/machine_code.h"

#include <holdfast/v1/fences.pb-c.h>

#define NODES &holdfast__v1__nodes__descriptor

Holdfast__V1__GetNodeResponse *get_node(struct fixture *f, const char *id, struct error *err)
{
	Holdfast__V1__GetNodeRequest request = V1(get_node_request, .id = TEXT(id));
	ProtobufCMessage *response = NULL;

	(void)call(&f->operator, NODES, "Get", &request.base, &response, err);
	return (Holdfast__V1__GetNodeResponse *)response;
}

Holdfast__V1__GetPluginResponse *get_plugin(struct fixture *f, const char *id, struct error *err)
{
	Holdfast__V1__GetPluginRequest request = V1(get_plugin_request, .id = TEXT(id));
	ProtobufCMessage *response = NULL;

	(void)call(&f->operator, & holdfast__v1__plugins__descriptor, "Get", &request.base, &response, err);
	return (Holdfast__V1__GetPluginResponse *)response;
}

Holdfast__V1__DrainNodeResponse *drain_node(struct fixture *f, const char *id, bool cancel, struct error *err)
{
	ProtobufCMessage *response = NULL;
	Holdfast__V1__DrainNodeRequest request =
		V1(drain_node_request, .id = TEXT(id), .reason = "new disks", .cancel = cancel);

	(void)call(&f->operator, NODES, "Drain", &request.base, &response, err);
	return (Holdfast__V1__DrainNodeResponse *)response;
}

Holdfast__V1__NodeStatus status_of(struct fixture *f, const char *node)
{
	cleanup_pb Holdfast__V1__GetNodeResponse *response = NON_NULL(get_node(f, node, NULL));
	Holdfast__V1__NodeStatus status;

	status = response->node->status;
	return status;
}

enum status set_eligible(struct fixture *f, const char *node, bool eligible, struct error *err)
{
	Holdfast__V1__SetEligibilityRequest request =
		V1(set_eligibility_request, .id = TEXT(node), .reason = "looks odd", .eligible = eligible);

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
	char code[NODE_MACHINE_MAX + 1];
	Holdfast__V1__IdentifyNodeRequest request =
		V1(identify_node_request, .id = TEXT(node), .reason = "new mainboard",
		   .machine = TEXT(machine_code(f->server, node, machine, code)));

	TRY(call(&f->operator, NODES, "Identify", &request.base, &response, err));
	expect_held_by_former(f, node, (Holdfast__V1__IdentifyNodeResponse *)response);
	protobuf_c_message_free_unpacked(response, NULL);
	return status;
}

enum status purge(struct fixture *f, const char *node, struct error *err)
{
	return purge_for(f, node, "it is scrapped", err);
}

enum status purge_for(struct fixture *f, const char *node, const char *reason, struct error *err)
{
	Holdfast__V1__PurgeNodeRequest request =
		V1(purge_node_request, .id = TEXT(node), .reason = TEXT(reason));

	request.keep_certificate = true; /* for the tests in which it comes back */
	return call(&f->operator, NODES, "Purge", &request.base, NULL, err);
}

enum status purge_unknown(struct fixture *f, struct error *err)
{
	Holdfast__V1__PurgeNodeRequest request = V1(purge_node_request, .unknown = true);

	return call(&f->operator, NODES, "Purge", &request.base, NULL, err);
}

enum status attest(struct fixture *f, const char *node, const char *volume, const char *reason,
		   uint64_t valid_ms, bool dry_run, Holdfast__V1__AttestNodeResponse **ret, struct error *err)
{
	Holdfast__V1__VolumeRef ref = V1(volume_ref, .id = TEXT(volume ? volume : "db"));
	Holdfast__V1__VolumeRef *refs[] = {&ref};
	Holdfast__V1__AttestNodeRequest request =
		V1(attest_node_request, .id = TEXT(node), .reason = TEXT(reason), .volumes = refs,
		   .n_volumes = 1, .valid_ms = valid_ms, .dry_run = dry_run);

	return call(&f->operator, NODES, "Attest", &request.base, (ProtobufCMessage **)ret, err);
}

void lose(struct fixture *f, struct fake_node *node)
{
	fake_node_disconnect(node);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, node->id)));
	settle(f);
}

char *why(struct fixture *f)
{
	static char text[4096];
	cleanup_pb ProtobufCMessage *response = NULL;
	Holdfast__V1__GetVolumeRequest request = V1(get_volume_request, .id = "db", .why = true);

	assert_ok(call(&f->operator, & holdfast__v1__volumes__descriptor, "Get", &request.base, &response,
		       NULL));
	str_copy_text(text, sizeof(text), ((Holdfast__V1__GetVolumeResponse *)response)->why);
	return text;
}

const char *policy_of(struct fixture *f)
{
	static char text[128];
	Holdfast__V1__PlanFencesRequest request = HOLDFAST__V1__PLAN_FENCES_REQUEST__INIT;
	cleanup_pb ProtobufCMessage *response = NULL;
	const Holdfast__V1__PlanFencesResponse *plan;

	assert_int_equal(call(&f->operator, & holdfast__v1__fences__descriptor, "Plan", &request.base,
			      &response, NULL),
			 STATUS_OK);
	plan = (const void *)response;
	str_copy_text(text, sizeof(text), plan->n_plans > 0 ? plan->plans[0]->policy : "");
	return text;
}
