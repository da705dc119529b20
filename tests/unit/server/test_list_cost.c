/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of lists of a node, of counts of a plugin and of a volume's claims: looks are counted, not timed.
 */

#include "asks.h"
#include "cluster.h"
#include "unit.h"

#include "base/str.h"
#include "claim/held_twice.h"
#include "model/volume_detail.h"
#include "plugin/plugins.h"
#include "state/keys.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <stdlib.h>

enum { MANY = 1000, OWN = 200 };

static size_t looks; /* at claims and pairs of them, and at whether allocations have ended */
static size_t
	steps; /* of walks over allocations by namespace and id, runners of a plugin, and parts of an id */

struct alloc_entry *__real_state_alloc_key_next(const struct node_entry *node, struct alloc_entry *entry);
struct alloc_entry *__wrap_state_alloc_key_next(const struct node_entry *node, struct alloc_entry *entry);
struct alloc_entry *__wrap_state_alloc_key_next(const struct node_entry *node, struct alloc_entry *entry)
{
	steps++;
	return __real_state_alloc_key_next(node, entry);
}

struct alloc_entry *__real_state_alloc_key_from(struct state *state, struct node_entry *node,
						const char *namespace, const char *id);
struct alloc_entry *__wrap_state_alloc_key_from(struct state *state, struct node_entry *node,
						const char *namespace, const char *id);
struct alloc_entry *__wrap_state_alloc_key_from(struct state *state, struct node_entry *node,
						const char *namespace, const char *id)
{
	steps++;
	return __real_state_alloc_key_from(state, node, namespace, id);
}

bool __real_alloc_is_client_terminal(const struct alloc *alloc);
bool __wrap_alloc_is_client_terminal(const struct alloc *alloc);
bool __wrap_alloc_is_client_terminal(const struct alloc *alloc)
{
	looks++;
	return __real_alloc_is_client_terminal(alloc);
}

bool __real_claim_is_live(const struct claim *claim);
bool __wrap_claim_is_live(const struct claim *claim);
bool __wrap_claim_is_live(const struct claim *claim)
{
	looks++;
	return __real_claim_is_live(claim);
}

bool __real_admission_are_rivals(const struct claim *a, const struct claim *b);
bool __wrap_admission_are_rivals(const struct claim *a, const struct claim *b);
bool __wrap_admission_are_rivals(const struct claim *a, const struct claim *b)
{
	looks++;
	return __real_admission_are_rivals(a, b);
}

bool __real_claim_is_of_other_context(const struct claim *claim, const struct volume *volume);
bool __wrap_claim_is_of_other_context(const struct claim *claim, const struct volume *volume);
bool __wrap_claim_is_of_other_context(const struct claim *claim, const struct volume *volume)
{
	steps++;
	return __real_claim_is_of_other_context(claim, volume);
}

struct claim_entry *__real_state_unmatched_next(const struct claim_entry *entry);
struct claim_entry *__wrap_state_unmatched_next(const struct claim_entry *entry);
struct claim_entry *__wrap_state_unmatched_next(const struct claim_entry *entry)
{
	steps++;
	return __real_state_unmatched_next(entry);
}

struct plugin_runner *__real_state_plugin_runner_next(struct plugin_runner *runner);
struct plugin_runner *__wrap_state_plugin_runner_next(struct plugin_runner *runner);
struct plugin_runner *__wrap_state_plugin_runner_next(struct plugin_runner *runner)
{
	steps++;
	return __real_state_plugin_runner_next(runner);
}

bool __real_alloc_entry_runs(const struct alloc_entry *entry, const struct plugin_entry *plugin);
bool __wrap_alloc_entry_runs(const struct alloc_entry *entry, const struct plugin_entry *plugin);
bool __wrap_alloc_entry_runs(const struct alloc_entry *entry, const struct plugin_entry *plugin)
{
	looks++;
	return __real_alloc_entry_runs(entry, plugin);
}

/* Node n1 has a claim on a volume, in namespace default for the first @n_own of them. */
static void put_claims(struct fixture *f, unsigned int n_own)
{
	for (unsigned int i = MANY; i-- > 0;) {
		struct volume volume = ROW(.type = VOLUME_NATIVE, .plugin_id = "native", .name = "v",
					   .profile = "scratch", .n_capabilities = 1);
		struct claim claim = ROW(.state = CLAIM_TAKEN, .mode = CLAIM_WRITE, .node_id = "n1",
					 .access_mode = SINGLE_NODE_WRITER, .plugin_id = "native",
					 .attachment_mode = ATTACHMENT_FILE_SYSTEM, .allocation_id = ALLOC_1);
		const char *namespace = i < n_own ? "default" : "other";

		volume.capabilities[0] = (struct capability){SINGLE_NODE_WRITER, ATTACHMENT_FILE_SYSTEM};
		(void)str_copy(volume.namespace, sizeof(volume.namespace), namespace);
		(void)str_format(volume.id, sizeof(volume.id), "v%05u", i);
		assert_int_equal(state_put_volume(&f->server->state, &volume, NULL), STATUS_OK);
		(void)str_copy(claim.namespace, sizeof(claim.namespace), namespace);
		(void)str_copy(claim.volume_id, sizeof(claim.volume_id), volume.id);
		(void)str_format(claim.id, sizeof(claim.id), "01890000-0000-7000-9000-%012u", i);
		assert_int_equal(state_put_claim(&f->server->state, &claim, NULL), STATUS_OK);
	}
}

CLUSTER_TEST(a_page_of_a_nodes_volumes_walks_its_claims_once)
{
	Holdfast__V1__ListVolumesRequest request = V1(list_volumes_request, .node_id = TEXT("n1"));
	cleanup_pb ProtobufCMessage *answer = NULL;
	const Holdfast__V1__ListVolumesResponse *page;

	put_claims(f, OWN);
	looks = 0;
	assert_int_equal(
		call(&f->operator, & holdfast__v1__volumes__descriptor, "List", &request.base, &answer, NULL),
		STATUS_OK);
	page = (const void *)answer;
	assert_int_equal(page->n_volumes, OWN);
	for (size_t i = 0; i < OWN; i++) {
		char id[VOLUME_ID_MAX + 1];

		(void)str_format(id, sizeof(id), "v%05zu", i);
		assert_string_equal(page->volumes[i]->id, id);
	}
	assert_in_range(looks, MANY, 4 * MANY); /* each volume looks at its own claims, too */
}

/* Allocations of node n1 that ended, the lowest id last. */
static void put_ended(struct fixture *f, const char *namespace, unsigned int from, unsigned int end)
{
	struct alloc alloc = ROW(.name = "app", .node_id = "n1", .desired_status = DESIRED_RUN,
				 .client_status = CLIENT_COMPLETE);

	(void)str_copy(alloc.namespace, sizeof(alloc.namespace), namespace);
	while (end-- > from) {
		(void)str_format(alloc.id, sizeof(alloc.id), "01890000-0000-7000-8000-%012u", end);
		assert_int_equal(state_put_alloc(&f->server->state, &alloc, NULL), STATUS_OK);
	}
}

/* Returns how many allocations of @namespace on node n1 all pages have together, in their order. */
static size_t count_listed(struct fixture *f, char *namespace)
{
	Holdfast__V1__ListAllocationsRequest request =
		V1(list_allocations_request, .node_id = TEXT("n1"), .namespace_ = namespace, .per_page = 400);
	char token[NAMESPACE_MAX + UUID_TEXT_SIZE + 1] = "", last[UUID_TEXT_SIZE] = "";
	size_t n = 0;

	steps = 0;
	request.next_token = token;
	do {
		cleanup_pb ProtobufCMessage *answer = NULL;
		const Holdfast__V1__ListAllocationsResponse *page;

		assert_int_equal(call(&f->operator, & holdfast__v1__allocations__descriptor, "List",
				      &request.base, &answer, NULL),
				 STATUS_OK);
		page = (const void *)answer;
		for (size_t i = 0; i < page->n_allocations; i++, n++) {
			assert_true(strcmp(page->allocations[i]->id, last) > 0);
			(void)str_copy(last, sizeof(last), page->allocations[i]->id);
		}
		(void)str_copy(token, sizeof(token), page->next_token);
	} while (token[0] != '\0');
	return n;
}

CLUSTER_TEST(a_list_of_a_nodes_allocations_walks_only_those_that_are_asked_for)
{
	struct alloc other = {.id = ALLOC_1, .namespace = NAMESPACE_DEFAULT, .name = "app", .node_id = "n2"};

	put_ended(f, "theirs", 2, 2 + MANY);
	put_ended(f, "zeta", 2 + MANY, 2 + MANY + OWN);
	assert_int_equal(state_put_alloc(&f->server->state, &other, NULL), STATUS_OK);
	assert_int_equal(count_listed(f, TEXT("zeta")), OWN);
	assert_in_range(steps, OWN, OWN + 2);
	assert_int_equal(count_listed(f, TEXT("*")), MANY + OWN);
	assert_int_equal(count_listed(f, TEXT("default")), 0);
}

CLUSTER_TEST(a_placement_looks_at_no_allocation_that_ended)
{
	Holdfast__V1__Constraint constraint = V1(constraint, .operator_ = TEXT("distinct_hosts"));
	Holdfast__V1__Constraint *constraints[] = {&constraint};
	Holdfast__Driver__V1__TaskConfig task = HOLDFAST__DRIVER__V1__TASK_CONFIG__INIT, *tasks[] = {&task};
	Holdfast__V1__Allocation alloc = V1(allocation, .name = TEXT("app"), .constraints = constraints,
					    .n_constraints = 1, .tasks = tasks, .n_tasks = 1);
	Holdfast__V1__RunAllocationRequest request =
		V1(run_allocation_request, .allocation = &alloc, .dry_run = true);
	struct error err;

	task.task = TEXT("app");
	task.driver = TEXT("container");
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	put_ended(f, NAMESPACE_DEFAULT, 1, MANY);
	settle(f);
	looks = 0;
	assert_int_equal(
		call(&f->operator, & holdfast__v1__allocations__descriptor, "Run", &request.base, NULL, &err),
		STATUS_FAILED_PRECONDITION);
	assert_contains(err.msg, "no node can take it");
	assert_in_range(looks, 0, 100);
}

/* Allocations of node n1 run the plugin; the newer half of them is to stop. */
static void put_runners(struct fixture *f)
{
	struct csi_plugin plugin = {.id = "ebs", .type = CSI_PLUGIN_NODE};
	struct alloc alloc = ROW(.namespace = NAMESPACE_DEFAULT, .name = "ebs", .node_id = "n1",
				 .plugins = &plugin, .n_plugins = 1, .client_status = CLIENT_RUNNING);

	for (unsigned int i = 0; i < MANY; i++) {
		(void)str_format(alloc.id, sizeof(alloc.id), "01890000-0000-7000-8000-%012u", i);
		alloc.desired_status = i < MANY / 2 ? DESIRED_RUN : DESIRED_STOP;
		assert_int_equal(state_put_alloc(&f->server->state, &alloc, NULL), STATUS_OK);
	}
}

CLUSTER_TEST(a_count_of_a_plugin_looks_at_each_allocation_that_runs_it_a_few_times)
{
	static const struct volume volume = {.type = VOLUME_CSI, .plugin_id = "ebs"};
	struct plugin_entry *plugin;
	struct plugin_summary summary;

	put_runners(f);
	plugin = state_plugin(&f->server->state, "ebs");
	looks = steps = 0;
	for (int i = 0; i < 10; i++) { /* of as many volumes; no node reports the plugin */
		plugin_summarize(plugin, &volume, &summary);
		assert_int_equal(summary.nodes_expected, 1);
	}
	assert_in_range(looks + steps, MANY, 4 * MANY);
}

CLUSTER_TEST(the_two_rivals_among_many_claims_of_a_volume_are_found_by_a_few_looks_at_each)
{
	struct volume volume = ROW(.namespace = NAMESPACE_DEFAULT, .id = "db", .type = VOLUME_NATIVE,
				   .plugin_id = "native", .name = "db", .profile = "scratch");
	struct claim claim = ROW(.namespace = NAMESPACE_DEFAULT, .volume_id = "db", .state = CLAIM_TAKEN,
				 .node_id = "n1", .plugin_id = "native", .allocation_id = ALLOC_1,
				 .attachment_mode = ATTACHMENT_FILE_SYSTEM);
	struct error err;

	assert_int_equal(state_put_volume(&f->server->state, &volume, NULL), STATUS_OK);
	for (unsigned int i = 0; i < MANY; i++) { /* the newest ones are first in the list */
		claim.access_mode = i < 2 ? MULTI_NODE_SINGLE_WRITER : MULTI_NODE_READER_ONLY;
		claim.mode = i < 2 ? CLAIM_WRITE : CLAIM_READ;
		(void)str_format(claim.id, sizeof(claim.id), "01890000-0000-7000-9000-%012u", i);
		assert_int_equal(state_put_claim(&f->server->state, &claim, NULL), STATUS_OK);
	}
	looks = 0;
	assert_error(held_twice_check_rivals(state_volume(&f->server->state, NAMESPACE_DEFAULT, "db"), &err),
		     STATUS_UNAVAILABLE, err, "held twice: node n1");
	assert_in_range(looks, 1, 2 * MANY);
	for (unsigned int i = 0; i < MANY; i++) { /* as a node reports them after a restore */
		(void)str_format(claim.id, sizeof(claim.id), "01890000-0000-7000-9000-%012u", i);
		claim.adopted = true;
		assert_int_equal(state_put_claim(&f->server->state, &claim, NULL), STATUS_OK);
	}
	looks = 0;
	held_twice_pair_all(f->server); /* those of one name are counted */
	assert_in_range(looks, 0, MANY);
	volume.type = VOLUME_CSI;
	(void)str_copy(volume.plugin_id, sizeof(volume.plugin_id), "nfs");
	(void)str_copy(volume.external_id, sizeof(volume.external_id), "vol-1");
	for (unsigned int i = 0; i < MANY; i++) { /* names of one id, of which each has a reader */
		(void)str_format(volume.id, sizeof(volume.id), "n%u", i);
		(void)str_format(claim.id, sizeof(claim.id), "01890000-0000-7000-8000-%012u", i);
		memcpy(claim.volume_id, volume.id, sizeof(claim.volume_id));
		memcpy(claim.plugin_id, volume.plugin_id, sizeof(claim.plugin_id));
		memcpy(claim.external_id, volume.external_id, sizeof(claim.external_id));
		assert_int_equal(state_put_volume(&f->server->state, &volume, NULL), STATUS_OK);
		assert_int_equal(state_put_claim(&f->server->state, &claim, NULL), STATUS_OK);
	}
	looks = 0;
	held_twice_pair_all(f->server);
	assert_in_range(looks, MANY, 200 * MANY);
}

enum { SHARES = 2000 };

/* A claim on the share of vol-1 that has the name of volume @name, as a node reports it. @change: that volume
 * is registered again; NULL: it is not. */
static struct claim_entry *put_share(struct fixture *f, const char *name, struct change *change)
{
	static unsigned int n;
	Holdfast__V1__VolumeDetail__ContextEntry context = HOLDFAST__V1__VOLUME_DETAIL__CONTEXT_ENTRY__INIT;
	Holdfast__V1__VolumeDetail__ContextEntry *contexts[] = {&context};
	const Holdfast__V1__VolumeDetail detail = V1(volume_detail, .context = contexts, .n_context = 1);
	struct volume volume = ROW(.namespace = NAMESPACE_DEFAULT, .type = VOLUME_CSI, .plugin_id = "nfs",
				   .external_id = "vol-1", .name = "v");
	struct claim claim =
		ROW(.namespace = NAMESPACE_DEFAULT, .state = CLAIM_TAKEN, .node_id = "n1", .plugin_id = "nfs",
		    .external_id = "vol-1", .allocation_id = ALLOC_1,
		    .attachment_mode = ATTACHMENT_FILE_SYSTEM, .access_mode = SINGLE_NODE_MULTI_WRITER,
		    .mode = CLAIM_WRITE, .adopted = true, .storage_proven = true);
	char key[OBJECT_KEY_SIZE];

	(void)str_copy(volume.id, sizeof(volume.id), name);
	(void)str_copy(claim.volume_id, sizeof(claim.volume_id), name);
	(void)str_format(claim.id, sizeof(claim.id), "01890000-0000-7000-a000-%012u", ++n);
	context.key = TEXT("share");
	context.value = volume.id;
	storage_context_digest(VOLUME_MAP(contexts), 1, claim.context_digest);
	if (!state_volume(&f->server->state, NAMESPACE_DEFAULT, name))
		assert_int_equal(state_put_volume(&f->server->state, &volume, NULL), STATUS_OK);
	assert_int_equal(state_put_claim(&f->server->state, &claim, NULL), STATUS_OK);
	if (change) {
		memcpy(volume.context_digest, claim.context_digest, sizeof(volume.context_digest));
		(void)str_format(key, sizeof(key), PREFIX_VOLUME_DETAIL NAMESPACE_DEFAULT "/%s", name);
		volume.capabilities[0] = (struct capability){SINGLE_NODE_WRITER, ATTACHMENT_FILE_SYSTEM};
		volume.n_capabilities = 1;
		change_put_record(change, key, &detail.base);
		change_put_volume(change, &volume);
	}
	return state_claim(&f->server->state, claim.id);
}

/* Half of the shares of one id are registered again. */
CLUSTER_TEST(a_start_skips_a_bounded_number_of_other_parts_for_each_claim)
{
	char name[16];

	for (unsigned int i = 0; i < SHARES / 40; i++) {
		cleanup(change_release) struct change change = CHANGE_INIT;

		for (unsigned int k = 0; k < 40; k++) {
			(void)str_format(name, sizeof(name), "p%u", 40 * i + k);
			(void)put_share(f, name, NULL);
			(void)str_format(name, sizeof(name), "r%u", 40 * i + k);
			(void)put_share(f, name, &change);
		}
		assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
		settle(f);
	}
	steps = 0;
	held_twice_pair_all(f->server);
	assert_in_range(steps, SHARES, 1500 * SHARES);
}

CLUSTER_TEST(an_adoption_skips_a_bounded_number_of_claims_of_its_name)
{
	steps = 0;
	for (unsigned int i = 0; i < SHARES; i++)
		held_twice_pair(put_share(f, "p", NULL));
	assert_in_range(steps, SHARES, 800 * SHARES);
}

/* @n nodes, each with @n_plugins csi plugins. */
static void put_nodes(struct fixture *f, unsigned int n, unsigned int n_plugins, bool is_healthy)
{
	for (unsigned int i = 0; i < n; i++) {
		struct node node = ROW(.boot_id = BOOT_1, .status = NODE_READY, .agent_version = "1.0.0",
				       .kernel = "6.12.48+deb13-amd64", .address = "192.0.2.100:40312");

		(void)str_format(node.id, sizeof(node.id), "worker-%04u", i);
		assert_int_equal(state_put_node(&f->server->state, &node, NULL), STATUS_OK);
		for (unsigned int k = 0; k < n_plugins; k++) {
			struct plugin_instance instance = ROW(.create_index = 1, .modify_index = 1);
			struct node_plugin *plugin = &instance.plugin;

			memcpy(instance.node_id, node.id, sizeof(node.id));
			(void)str_format(plugin->plugin_id, sizeof(plugin->plugin_id), "plugin-%02u", k);
			(void)str_copy(plugin->provider, sizeof(plugin->provider), "csi.storage.example.com");
			(void)str_copy(plugin->provider_version, sizeof(plugin->provider_version), "v4.11.0");
			(void)str_format(plugin->node.provider_node_id, sizeof(plugin->node.provider_node_id),
					 "i-0123456789abc%04u", i);
			plugin->has_node = true;
			plugin->healthy = is_healthy;
			plugin->update_time_ms = 1764400000000;
			if (!is_healthy) {
				memset(plugin->health_description, 'x', NODE_HEALTH_MAX);
				plugin->has_controller = true;
				memset(plugin->controller.health_description, 'x', NODE_HEALTH_MAX);
			}
			plugin->node.topology.n_segments = is_healthy ? 2 : TOPOLOGY_SEGMENTS_MAX;
			for (unsigned int t = 0; t < plugin->node.topology.n_segments; t++) {
				(void)str_format(plugin->node.topology.segments[t].key, TOPOLOGY_TEXT_MAX,
						 "topology.storage.example.com/zone%u", t);
				(void)str_copy(plugin->node.topology.segments[t].value, TOPOLOGY_TEXT_MAX,
					       "eu-central-1a");
			}
			assert_int_equal(state_put_instance(&f->server->state, &instance, NULL), STATUS_OK);
		}
	}
}

static void list_nodes(struct fixture *f)
{
	Holdfast__V1__ListNodesRequest request = V1(list_nodes_request, .per_page = 1000);
	cleanup_pb ProtobufCMessage *answer = NULL;
	struct error err;

	if (call(&f->operator, & holdfast__v1__nodes__descriptor, "List", &request.base, &answer, &err) !=
	    STATUS_OK)
		fail_msg("%s", err.msg);
}

/* As when a provider does not answer: each plugin of each node has its error. */
CLUSTER_TEST(a_page_of_a_thousand_nodes_with_eight_sick_plugins_fits_a_message)
{
	put_nodes(f, 1000, 8, false);
	list_nodes(f);
}

CLUSTER_TEST(a_page_of_a_thousand_nodes_with_two_dozen_plugins_fits_a_message)
{
	put_nodes(f, 1000, 24, true);
	list_nodes(f);
}

/* As less than a hundred stolen certificates report. */
CLUSTER_TEST(nodes_that_report_much_do_not_break_the_list_of_nodes)
{
	put_nodes(f, 90, NODE_PLUGINS_MAX, false);
	list_nodes(f);
}
