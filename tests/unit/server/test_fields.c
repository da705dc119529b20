/* SPDX-License-Identifier: Apache-2.0 */
/* The access matrix of fields: each text field of every request, and of every message in one, is classified.
 * A field that no row classifies fails the test, as a row does that no request has. */
#include "unit.h"

#include "base/fd.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/fences.pb-c.h>
#include <holdfast/v1/jobs.pb-c.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/plugins.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>

enum field_class {
	OWN,	 /* names an object by its namespace, or below one; test_rights has the right of its method */
	FOREIGN, /* names a thing of a provider or a host: csi-adopt-volume, or it is the namespace's already
		  */
	CLUSTER, /* names what is of no namespace, node, plugin, token, policy: the right of its method */
	CURSOR,	 /* begins or narrows a list, which shows what the caller may see */
	ROOT,	 /* names what root's files on the node allow or refuse */
	OPAQUE,	 /* goes to a plugin, driver or task as it is */
	SECRET,	 /* is never shown */
	TEXT,	 /* is for people, or a word of a closed list */
	DERIVED, /* the server says it: what a caller sends is not looked at */
	NODE,	 /* a node, or a fencer, reports it in its session, about itself */
};

static const struct row {
	const char *field; /* "Message.field"; "Message.*": all its text fields, of what nodes report */
	enum field_class class;
	const char *test; /* FOREIGN: of test_foreign_ids.c, in which another namespace's is refused */
} rows[] = {
	{"driver.v1.CapabilitiesResponse.*", NODE},
	{"driver.v1.ConfigField.*", NODE},
	{"driver.v1.ConfigValue.key", ROOT},
	{"driver.v1.ConfigValue.list", ROOT},
	{"driver.v1.ConfigValue.text", ROOT},
	{"driver.v1.CsiPluginMount.destination", ROOT},
	{"driver.v1.CsiPluginMount.id", ROOT},
	{"driver.v1.CsiPluginMount.socket", ROOT},
	{"driver.v1.ExecCommand.alloc_id", OWN},
	{"driver.v1.ExecCommand.argv", OPAQUE},
	{"driver.v1.ExecCommand.driver", ROOT},
	{"driver.v1.ExecCommand.namespace", DERIVED},
	{"driver.v1.ExecCommand.task", OWN},
	{"driver.v1.ExecCommand.user", ROOT},
	{"driver.v1.ExitResult.error", NODE},
	{"driver.v1.FieldLimit.*", NODE},
	{"driver.v1.FingerprintResponse.description", NODE},
	{"driver.v1.HealthCheck.argv", OPAQUE},
	{"driver.v1.KeyValue.key", OPAQUE},
	{"driver.v1.KeyValue.value", OPAQUE},
	{"driver.v1.NetworkSpec.alloc_id", DERIVED},
	{"driver.v1.NetworkSpec.state", DERIVED},
	{"driver.v1.PluginLimits.*", NODE},
	{"driver.v1.TaskConfig.alloc_id", DERIVED},
	{"driver.v1.TaskConfig.driver", ROOT},
	{"driver.v1.TaskConfig.job", DERIVED},
	{"driver.v1.TaskConfig.namespace", DERIVED},
	{"driver.v1.TaskConfig.stop_signal", TEXT},
	{"driver.v1.TaskConfig.task", OWN},
	{"driver.v1.TaskConfig.user", ROOT},
	{"driver.v1.TaskStatus.*", NODE},
	{"driver.v1.VolumeMount.destination", ROOT},
	{"driver.v1.VolumeMount.volume", OWN},
	{"v1.AcceptTrailRequest.node_id", CLUSTER},
	{"v1.AcceptTrailRequest.reason", TEXT},
	{"v1.AccessPolicy.backup", TEXT},
	{"v1.AccessPolicy.description", TEXT},
	{"v1.AccessPolicy.name", CLUSTER},
	{"v1.AccessPolicy.node", TEXT},
	{"v1.AccessPolicy.operator", TEXT},
	{"v1.AccessPolicy.plugin", TEXT},
	{"v1.AllocStatus.*", NODE},
	{"v1.AllocVolume.*", NODE},
	{"v1.Allocation.client_description", DERIVED},
	{"v1.Allocation.driver", ROOT},
	{"v1.Allocation.id", OWN},
	{"v1.Allocation.job_group", DERIVED},
	{"v1.Allocation.job_id", DERIVED},
	{"v1.Allocation.name", TEXT},
	{"v1.Allocation.namespace", OWN},
	{"v1.Allocation.node_id", CLUSTER},
	{"v1.Allocation.unit", ROOT},
	{"v1.Allocation.wait_node_id", DERIVED},
	{"v1.AllocationEvent.*", NODE},
	{"v1.AllocationLogsRequest.id", OWN},
	{"v1.AllocationLogsRequest.task", OWN},
	{"v1.AllocationStatsRequest.id", OWN},
	{"v1.AllocationStatsRequest.task", OWN},
	{"v1.ApplyRestoreRequest.id", CLUSTER},
	{"v1.ApplyRestoreRequest.reason", TEXT},
	{"v1.AttestNodeRequest.id", CLUSTER},
	{"v1.AttestNodeRequest.reason", TEXT},
	{"v1.BeginBackupRequest.passphrase", SECRET},
	{"v1.ChangeCaRequest.certificate", TEXT},
	{"v1.ChangeCaRequest.key", SECRET},
	{"v1.Claim.*", NODE},
	{"v1.ClaimReceipt.*", NODE},
	{"v1.ClaimVolumeRequest.allocation_id", OWN},
	{"v1.ClaimVolumeRequest.namespace", OWN},
	{"v1.ClaimVolumeRequest.volume_id", OWN},
	{"v1.ClaimVolumeRequest.volume_name", OWN},
	{"v1.Constraint.attribute", TEXT},
	{"v1.Constraint.operator", TEXT},
	{"v1.Constraint.value", TEXT},
	{"v1.ControllerAttachResponse.publish_context", NODE},
	{"v1.ControllerCreateResponse.*", NODE},
	{"v1.ControllerDetachResponse.message", NODE},
	{"v1.ControllerHalf.health_description", NODE},
	{"v1.ControllerListSnapshotsResponse.next_token", NODE},
	{"v1.ControllerListVolumesResponse.next_token", NODE},
	{"v1.ControllerValidateResponse.message", NODE},
	{"v1.CreateEnrollmentRequest.hosts", TEXT},
	{"v1.CreateEnrollmentRequest.identity", CLUSTER},
	{"v1.CreateEnrollmentRequest.node", CLUSTER},
	{"v1.CreateSnapshotRequest.name", OWN},
	{"v1.CreateSnapshotRequest.namespace", OWN},
	{"v1.CreateSnapshotRequest.parameters", OPAQUE},
	{"v1.CreateSnapshotRequest.secrets", SECRET},
	{"v1.CreateSnapshotRequest.volume_id", OWN},
	{"v1.CsiPlugin.id", CLUSTER},
	{"v1.CsiPlugin.socket", ROOT},
	{"v1.DeletePolicyRequest.name", CLUSTER},
	{"v1.DeleteSnapshotRequest.plugin_id", CLUSTER},
	{"v1.DeleteSnapshotRequest.secrets", SECRET},
	{"v1.DeleteSnapshotRequest.snapshot_id", FOREIGN,
	 "a_deletion_of_another_namespaces_snapshot_is_refused_as_one_of_an_unknown_id"},
	{"v1.DeleteVolumeRequest.id", OWN},
	{"v1.DeleteVolumeRequest.namespace", OWN},
	{"v1.DeleteVolumeRequest.secrets", SECRET},
	{"v1.DeregisterVolumeRequest.id", OWN},
	{"v1.DeregisterVolumeRequest.namespace", OWN},
	{"v1.DetachVolumeRequest.attest_reason", TEXT},
	{"v1.DetachVolumeRequest.fence_reason", TEXT},
	{"v1.DetachVolumeRequest.id", OWN},
	{"v1.DetachVolumeRequest.namespace", OWN},
	{"v1.DetachVolumeRequest.node_id", CLUSTER},
	{"v1.DetachVolumeRequest.without_plugin_reason", TEXT},
	{"v1.DrainNodeRequest.id", CLUSTER},
	{"v1.DrainNodeRequest.reason", TEXT},
	{"v1.EnrollRequest.csr", TEXT},
	{"v1.EnrollRequest.identity", CLUSTER},
	{"v1.EnrollRequest.node", CLUSTER},
	{"v1.EnrollRequest.token", CLUSTER},
	{"v1.ExecAllocationRequest.id", OWN},
	{"v1.ExecAllocationRequest.task", OWN},
	{"v1.ExpandVolumeRequest.id", OWN},
	{"v1.ExpandVolumeRequest.namespace", OWN},
	{"v1.ExpandVolumeRequest.secrets", SECRET},
	{"v1.ExternalSnapshot.*", NODE},
	{"v1.ExternalVolume.*", NODE},
	{"v1.FenceAnswer.*", NODE},
	{"v1.FenceClient.*", NODE},
	{"v1.FenceNodeRequest.id", CLUSTER},
	{"v1.FenceNodeRequest.plugin_id", CLUSTER},
	{"v1.FenceNodeRequest.reason", TEXT},
	{"v1.FencerHello.*", NODE},
	{"v1.FencerNode.*", NODE},
	{"v1.Fingerprint.*", NODE},
	{"v1.GetAllocationRequest.id", OWN},
	{"v1.GetFenceRequest.id", CLUSTER},
	{"v1.GetFenceRequest.plugin_id", CLUSTER},
	{"v1.GetJobRequest.id", OWN},
	{"v1.GetJobRequest.namespace", OWN},
	{"v1.GetNodeRequest.id", CLUSTER},
	{"v1.GetPluginRequest.id", CLUSTER},
	{"v1.GetPluginRequest.next_token", CURSOR},
	{"v1.GetVolumeRequest.id", OWN},
	{"v1.GetVolumeRequest.namespace", OWN},
	{"v1.Heartbeat.boot_id", NODE},
	{"v1.IdentifyNodeRequest.id", CLUSTER},
	{"v1.IdentifyNodeRequest.machine", CLUSTER},
	{"v1.IdentifyNodeRequest.reason", TEXT},
	{"v1.IssueCertificateRequest.csr", TEXT},
	{"v1.IssueCertificateRequest.identity", CLUSTER},
	{"v1.Job.id", OWN},
	{"v1.Job.namespace", OWN},
	{"v1.JobGroup.name", OWN},
	{"v1.JobGroup.per_alloc", TEXT},
	{"v1.JobHistoryRequest.id", OWN},
	{"v1.JobHistoryRequest.namespace", OWN},
	{"v1.ListAllocationsRequest.filter", CURSOR},
	{"v1.ListAllocationsRequest.namespace", OWN},
	{"v1.ListAllocationsRequest.next_token", CURSOR},
	{"v1.ListAllocationsRequest.node_id", CLUSTER},
	{"v1.ListAllocationsRequest.prefix", CURSOR},
	{"v1.ListAuditRequest.about", CURSOR},
	{"v1.ListAuditRequest.object", CURSOR},
	{"v1.ListAuditRequest.who", CURSOR},
	{"v1.ListExternalVolumesRequest.next_token", FOREIGN,
	 "a_list_of_the_providers_volumes_has_those_that_the_caller_may_see"},
	{"v1.ListExternalVolumesRequest.plugin_id", CLUSTER},
	{"v1.ListFencedResponse.*", NODE},
	{"v1.ListJobsRequest.filter", CURSOR},
	{"v1.ListJobsRequest.namespace", OWN},
	{"v1.ListJobsRequest.next_token", CURSOR},
	{"v1.ListJobsRequest.prefix", CURSOR},
	{"v1.ListNodesRequest.filter", CURSOR},
	{"v1.ListNodesRequest.next_token", CURSOR},
	{"v1.ListNodesRequest.prefix", CURSOR},
	{"v1.ListPluginsRequest.next_token", CURSOR},
	{"v1.ListPluginsRequest.prefix", CURSOR},
	{"v1.ListPoliciesRequest.next_token", CURSOR},
	{"v1.ListPoliciesRequest.prefix", CURSOR},
	{"v1.ListRevocationsRequest.next_token", CURSOR},
	{"v1.ListRevocationsRequest.prefix", CURSOR},
	{"v1.ListSnapshotsRequest.next_token", FOREIGN,
	 "a_list_of_the_providers_snapshots_has_those_that_the_caller_may_see"},
	{"v1.ListSnapshotsRequest.plugin_id", CLUSTER},
	{"v1.ListSnapshotsRequest.secrets", SECRET},
	{"v1.ListTokensRequest.next_token", CURSOR},
	{"v1.ListTokensRequest.prefix", CURSOR},
	{"v1.ListTrailsRequest.next_token", CURSOR},
	{"v1.ListTrailsRequest.prefix", CURSOR},
	{"v1.ListVolumesRequest.filter", CURSOR},
	{"v1.ListVolumesRequest.namespace", OWN},
	{"v1.ListVolumesRequest.next_token", CURSOR},
	{"v1.ListVolumesRequest.node_id", CLUSTER},
	{"v1.ListVolumesRequest.plugin_id", CLUSTER},
	{"v1.ListVolumesRequest.prefix", CURSOR},
	{"v1.Mark.machine", NODE},
	{"v1.Mark.node", NODE},
	{"v1.Mark.store_id", NODE},
	{"v1.MountOptions.fs_type", TEXT},
	{"v1.MountOptions.mount_flags", OPAQUE},
	{"v1.MountedClaim.claim_id", NODE},
	{"v1.NamespaceRule.capabilities", TEXT},
	{"v1.NamespaceRule.namespace", CLUSTER},
	{"v1.NamespaceRule.policy", TEXT},
	{"v1.NodeCapacity.node_id", NODE},
	{"v1.NodeDriver.*", NODE},
	{"v1.NodeHalf.provider_node_id", NODE},
	{"v1.NodePlugin.*", NODE},
	{"v1.OrderTaskRequest.id", OWN},
	{"v1.OrderTaskRequest.namespace", OWN},
	{"v1.OrderTaskRequest.task", OWN},
	{"v1.PluginReply.message", NODE},
	{"v1.PurgeNodeRequest.id", CLUSTER},
	{"v1.PurgeNodeRequest.reason", TEXT},
	{"v1.ReadBackupRequest.id", CLUSTER},
	{"v1.RegisterVolumeRequest.unconfirmed_reason", TEXT},
	{"v1.RenewRequest.csr", TEXT},
	{"v1.RestartJobRequest.group", OWN},
	{"v1.RestartJobRequest.id", OWN},
	{"v1.RestartJobRequest.namespace", OWN},
	{"v1.RevertJobRequest.id", OWN},
	{"v1.RevertJobRequest.namespace", OWN},
	{"v1.RevokeCertificateRequest.identity", CLUSTER},
	{"v1.RevokeCertificateRequest.reason", TEXT},
	{"v1.RevokeCertificateRequest.serial", CLUSTER},
	{"v1.RevokeTokenRequest.accessor", CLUSTER},
	{"v1.ScaleJobRequest.group", OWN},
	{"v1.ScaleJobRequest.id", OWN},
	{"v1.ScaleJobRequest.namespace", OWN},
	{"v1.SessionHello.*", NODE},
	{"v1.SetAutomaticRequest.reason", TEXT},
	{"v1.SetEligibilityRequest.id", CLUSTER},
	{"v1.SetEligibilityRequest.reason", TEXT},
	{"v1.SnapshotScheduleState.error", DERIVED},
	{"v1.Source.by_id", FOREIGN, "a_registration_of_a_host_storage_needs_the_right_to_adopt"},
	{"v1.Source.export", FOREIGN, "a_registration_of_a_host_storage_needs_the_right_to_adopt"},
	{"v1.Source.host_volume", FOREIGN, "a_registration_of_a_host_storage_needs_the_right_to_adopt"},
	{"v1.Source.server", FOREIGN, "a_registration_of_a_host_storage_needs_the_right_to_adopt"},
	{"v1.StopAllocationRequest.id", OWN},
	{"v1.StopJobRequest.id", OWN},
	{"v1.StopJobRequest.namespace", OWN},
	{"v1.TaskStreamEnd.message", NODE},
	{"v1.TestFenceRequest.id", CLUSTER},
	{"v1.Token.accessor", CLUSTER},
	{"v1.Token.cidrs", TEXT},
	{"v1.Token.name", CLUSTER},
	{"v1.Token.namespace", CLUSTER},
	{"v1.Token.node", CLUSTER},
	{"v1.Token.policies", CLUSTER},
	{"v1.Token.secret", SECRET},
	{"v1.Topology.segments", TEXT},
	{"v1.Volume.clone_id", FOREIGN,
	 "a_clone_of_another_namespaces_volume_is_refused_as_one_of_an_unknown_id"},
	{"v1.Volume.context", FOREIGN, "the_right_to_adopt_in_one_namespace_opens_no_id_of_another"},
	{"v1.Volume.description", TEXT},
	{"v1.Volume.external_id", FOREIGN,
	 "a_registration_of_another_namespaces_volume_is_refused_as_one_of_an_unknown_id"},
	{"v1.Volume.history_error", DERIVED},
	{"v1.Volume.id", OWN},
	{"v1.Volume.name", TEXT},
	{"v1.Volume.namespace", OWN},
	{"v1.Volume.parameters", OPAQUE},
	{"v1.Volume.phase_error", DERIVED},
	{"v1.Volume.plugin_id", CLUSTER},
	{"v1.Volume.profile", ROOT},
	{"v1.Volume.provider", DERIVED},
	{"v1.Volume.provider_version", DERIVED},
	{"v1.Volume.secrets", SECRET},
	{"v1.Volume.shares", OWN},
	{"v1.Volume.snapshot_id", FOREIGN,
	 "a_volume_from_another_namespaces_snapshot_is_refused_as_one_of_an_unknown_id"},
	{"v1.Volume.unschedulable_reason", DERIVED},
	{"v1.VolumeRef.id", OWN},
	{"v1.VolumeRef.namespace", OWN},
	{"v1.VolumeRequest.name", OWN},
	{"v1.VolumeRequest.source", OWN},
	{"v1.VolumeUsage.*", NODE},
	{"v1.WatchRequest.namespace", OWN},
	{"v1.WatchRequest.topics", TEXT},
	{"v1.WriteRestoreRequest.id", CLUSTER},
};

enum { MESSAGES_MAX = 256, NAME_SIZE = 192 };

struct walk {
	const ProtobufCMessageDescriptor *seen[MESSAGES_MAX];
	size_t n;
	bool used[ARRAY_SIZE(rows)];
	unsigned int n_unclassified, n_fields;
};

static const char *short_name(const char *name)
{
	static const char prefix[] = "holdfast.";

	return str_starts_with(name, prefix) ? name + strlen(prefix) : name;
}

/* Its row, or that of the whole message; -1: there is none. */
static int row_of(const char *message, const char *field)
{
	char names[2][NAME_SIZE];

	(void)str_format(names[0], NAME_SIZE, "%s.%s", message, field);
	(void)str_format(names[1], NAME_SIZE, "%s.*", message);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		for (size_t k = 0; k < ARRAY_SIZE(rows); k++)
			if (str_eq(rows[k].field, names[i]))
				return (int)k;
	return -1;
}

/* Entries of a map are of the field that has them. */
static bool is_text_map(const ProtobufCFieldDescriptor *field)
{
	const ProtobufCMessageDescriptor *entry = field->descriptor;

	return field->type == PROTOBUF_C_TYPE_MESSAGE && entry->n_fields == 2 &&
	       str_eq(entry->fields[0].name, "key") && str_eq(entry->fields[1].name, "value") &&
	       strstr(entry->name, "Entry");
}

static void look_at(struct walk *walk, const ProtobufCMessageDescriptor *message)
{
	const char *name = short_name(message->name);

	for (size_t i = 0; i < walk->n; i++)
		if (walk->seen[i] == message)
			return;
	assert_true(walk->n < MESSAGES_MAX);
	walk->seen[walk->n++] = message;
	for (unsigned int i = 0; i < message->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &message->fields[i];
		bool is_text = field->type == PROTOBUF_C_TYPE_STRING || is_text_map(field);
		int row = is_text ? row_of(name, field->name) : -1;

		if (row >= 0)
			walk->used[row] = true;
		walk->n_fields += is_text;
		if (is_text && row < 0) {
			print_error("%s.%s has no row\n", name, field->name);
			walk->n_unclassified++;
		} else if (field->type == PROTOBUF_C_TYPE_MESSAGE && !is_text) {
			look_at(walk, field->descriptor);
		}
	}
}

static const ProtobufCServiceDescriptor *const services[] = {
	&holdfast__v1__volumes__descriptor, &holdfast__v1__plugins__descriptor,
	&holdfast__v1__nodes__descriptor,   &holdfast__v1__allocations__descriptor,
	&holdfast__v1__jobs__descriptor,    &holdfast__v1__operator__descriptor,
	&holdfast__v1__fences__descriptor,
};

TEST(every_text_field_of_every_request_is_classified)
{
	struct walk walk = {.n = 0};

	for (size_t i = 0; i < ARRAY_SIZE(services); i++)
		for (unsigned int k = 0; k < services[i]->n_methods; k++)
			look_at(&walk, services[i]->methods[k].input);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_msg(walk.used[i], "%s is no text field of a request", rows[i].field);
	assert_int_equal(walk.n_unclassified, 0);
	assert_true(walk.n_fields > ARRAY_SIZE(rows) / 2);
}

/* The texts of answers that name a machine: the server puts its code there, see node/machine_code.h. */
static const char *const machines[] = {"v1.Attestation.machines", "v1.Fence.machine",
				       "v1.Mark.machine",	  "v1.Node.machine",
				       "v1.Node.other_machine",	  "v1.PastBoot.machine"};

static void look_for_machines(struct walk *walk, const ProtobufCMessageDescriptor *message)
{
	char name[NAME_SIZE];

	for (size_t i = 0; i < walk->n; i++)
		if (walk->seen[i] == message)
			return;
	assert_true(walk->n < MESSAGES_MAX);
	walk->seen[walk->n++] = message;
	for (unsigned int i = 0; i < message->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &message->fields[i];
		size_t at = 0;

		if (field->type == PROTOBUF_C_TYPE_MESSAGE)
			look_for_machines(walk, field->descriptor);
		if (field->type != PROTOBUF_C_TYPE_STRING || !strstr(field->name, "machine"))
			continue;
		(void)str_format(name, sizeof(name), "%s.%s", short_name(message->name), field->name);
		while (at < ARRAY_SIZE(machines) && !str_eq(machines[at], name))
			at++;
		assert_msg(at < ARRAY_SIZE(machines), "%s may show a machine instead of its code", name);
		walk->used[at] = true;
	}
}

TEST(every_machine_in_an_answer_is_a_code)
{
	struct walk walk = {.n = 0};

	for (size_t i = 0; i < ARRAY_SIZE(services); i++)
		for (unsigned int k = 0; k < services[i]->n_methods; k++)
			look_for_machines(&walk, services[i]->methods[k].output);
	for (size_t i = 0; i < ARRAY_SIZE(machines); i++)
		assert_msg(walk.used[i], "%s is in no answer", machines[i]);
}

TEST(each_field_that_names_foreign_things_has_a_test_that_refuses_it)
{
	cleanup_free char *source = NULL;
	char text[NAME_SIZE];
	const char *at;

	assert_int_equal(file_read(FOREIGN_IDS, 1 << 20, &source, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_msg((rows[i].class == FOREIGN) == (rows[i].test != NULL),
			   "%s: a test is for foreign fields, and each of them has one", rows[i].field);
		if (!rows[i].test)
			continue;
		(void)str_format(text, sizeof(text), "(%s", rows[i].test);
		at = strstr(source, text);
		if (!at || !strchr(",)", at[strlen(text)]))
			fail_msg("%s: there is no test %s", rows[i].field, rows[i].test);
	}
}
