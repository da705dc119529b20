/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster.h"

#include "copied.h"
#include "dev.h"
#include "metrics.h"
#include "unit.h"
#include "warnings.h"

#include "access/audit_read.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "node/lookup.h"
#include "recovery/restore.h"
#include "state/keys.h"
#include "store/kv_sqlite.h"

#include <ftw.h>
#include <holdfast/v1/allocations.pb-c.h>
#include <limits.h>

#define HEARTBEAT_NEVER_US (3600 * USEC_PER_SEC)

enum { NODES_MAX = 100 };

static uint16_t start_server(struct fixture *f)
{
	static char names[NODES_MAX][8];
	static const char *nodes[NODES_MAX];
	const struct dev_options options = {
		.dir = f->dir, .cluster = "c1", .nodes = nodes, .n_nodes = f->n_nodes > 0 ? f->n_nodes : 2};
	cleanup_free char *address = NULL;
	char path[PATH_MAX];
	struct config config;
	uint32_t port;

	assert_true(options.n_nodes <= NODES_MAX);
	for (size_t i = 0; i < options.n_nodes; i++) {
		assert_true(str_format(names[i], sizeof(names[i]), "n%zu", i + 1) > 0);
		nodes[i] = names[i];
	}
	assert_int_equal(dev_prepare(&options, &config, NULL), STATUS_OK);
	config.dev = !f->acl;
	config.acl = f->acl;
	if (f->controller_timeout_us > 0)
		config.controller_timeout_us = f->controller_timeout_us;
	/* the nodes of the fixture say what a test has them say */
	config.heartbeat_us = f->heartbeat_us > 0 ? f->heartbeat_us : HEARTBEAT_NEVER_US;
	if (f->reservation_ttl_us > 0)
		config.reservation_ttl_us = f->reservation_ttl_us;
	if (f->mark_file)
		(void)str_copy(config.mark_file, sizeof(config.mark_file), f->mark_file);
	if (f->release_sweep_us > 0)
		config.release_sweep_us = f->release_sweep_us;
	assert_int_equal(server_new(&config, &f->server, NULL), STATUS_OK);
	f->event = f->server->event;
	f->copied = copied_begin(f->server);
	(void)str_format(path, sizeof(path), "%s/address", f->dir);
	assert_int_equal(file_read(path, 100, &address, NULL), 0);
	address[strcspn(address, "\n")] = '\0';
	assert_int_equal(parse_u32(strrchr(address, ':') + 1, 1, 65535, &port), 0);
	return (uint16_t)port;
}

void cluster_start(struct fixture *f)
{
	uint16_t port = start_server(f);

	f->port = port;
	fake_node_init(&f->operator, f->event, f->dir, "operator", port);
	fake_node_init(&f->n1, f->event, f->dir, "node-n1", port);
	fake_node_init(&f->n2, f->event, f->dir, "node-n2", port);
}

void cluster_stop(struct fixture *f)
{
	copied_check(f->copied); /* it may run the loop, which is not to see the nodes go */
	fake_node_release(&f->operator);
	fake_node_release(&f->n1);
	fake_node_release(&f->n2);
	server_free(f->server);
}

void restart_with(struct fixture *f, void (*between)(struct fixture *f))
{
	cluster_stop(f);
	between(f);
	cluster_start(f);
}

void restart(struct fixture *f)
{
	cluster_stop(f);
	cluster_start(f);
}

static bool put_again(const struct kv_item *item, void *userdata)
{
	const struct kv_op op = {.key = item->key, .value = item->value, .len = item->len};

	assert_int_equal(kv_rewrite_put(userdata, &(struct kv_op){.key = item->key}, NULL), STATUS_OK);
	assert_int_equal(kv_rewrite_put(userdata, &op, NULL), STATUS_OK);
	return true;
}

static enum status put_all_again(struct kv_rewrite *rewrite, void *userdata, struct error *err)
{
	return kv_rewrite_range(rewrite, "", put_again, rewrite, err);
}

void restart_renumbered(struct fixture *f)
{
	char path[PATH_MAX];
	sd_event *event = NULL;
	struct kv *kv = NULL;

	(void)str_format(path, sizeof(path), "%s/" SERVER_STORE, f->server->config.data_dir);
	cluster_stop(f);
	assert_int_equal(sd_event_new(&event), 0);
	assert_int_equal(kv_open_sqlite(event, path, &kv, NULL), STATUS_OK);
	assert_int_equal(kv_rewrite(kv, put_all_again, NULL, NULL), STATUS_OK);
	kv_close(kv);
	(void)sd_event_unref(event);
	cluster_start(f);
}

static int setup_as(void **state, bool acl, size_t n_nodes)
{
	struct fixture *f = NON_NULL(calloc(1, sizeof(*f)));

	f->acl = acl;
	f->n_nodes = n_nodes;
	f->access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER;
	f->source = "db";
	folder_make(f->dir);
	cluster_start(f);
	*state = f;
	return 0;
}

int setup(void **state)
{
	return setup_as(state, false, 0);
}

int setup_three(void **state)
{
	return setup_as(state, false, 3);
}

int setup_hundred(void **state)
{
	return setup_as(state, false, NODES_MAX);
}

int setup_acl(void **state)
{
	return setup_as(state, true, 0);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

int teardown(void **state)
{
	cleanup_free struct fixture *f = *state;

	cluster_stop(f);
	assert_int_equal(nftw(f->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
	return 0;
}

enum status call(struct fake_node *as, const ProtobufCServiceDescriptor *service, const char *method,
		 const ProtobufCMessage *request, ProtobufCMessage **ret, struct error *err)
{
	ProtobufCMessage *response = NULL;
	enum status status =
		rpc_client_call_sync(as->client, service, method, request, TIMEOUT_US, &response, err);

	if (response)
		expect_no_machine(response);
	if (ret)
		*ret = response;
	else if (response)
		protobuf_c_message_free_unpacked(response, NULL);
	return status;
}

enum status register_disk(struct fixture *f, struct fake_node *as, const char *name, const char *disk,
			  struct error *err)
{
	Holdfast__V1__Volume volume = HOLDFAST__V1__VOLUME__INIT;
	Holdfast__V1__RegisterVolumeRequest request = V1(register_volume_request, .volume = &volume);
	Holdfast__V1__Capability capability = HOLDFAST__V1__CAPABILITY__INIT;
	Holdfast__V1__Capability *capabilities[] = {&capability};
	char id[VOLUME_ID_MAX + 1], by_id[BY_ID_MAX + 1];
	Holdfast__V1__Source source = V1(source, .class_ = HOLDFAST__V1__SOURCE_CLASS__BLOCK, .by_id = by_id);

	assert_int_equal(str_copy(id, sizeof(id), name) < 0, 0);
	assert_int_equal(str_copy(by_id, sizeof(by_id), disk) < 0, 0);
	capability.access_mode = f->access_mode;
	capability.attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__FILE_SYSTEM;
	volume.id = id;
	volume.type = HOLDFAST__V1__VOLUME_TYPE__NATIVE;
	volume.profile = "disk";
	volume.source = &source;
	volume.requested_capabilities = capabilities;
	volume.n_requested_capabilities = 1;
	return call(as, &holdfast__v1__volumes__descriptor, "Register", &request.base, NULL, err);
}

enum status register_volume(struct fixture *f, struct fake_node *as, struct error *err)
{
	return register_disk(f, as, "db", "wwn-0x1", err);
}

static void store_csi_volume(struct fixture *f, const char *id)
{
	const struct volume_entry *former = state_volume(&f->server->state, NAMESPACE_DEFAULT, id);
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct volume volume = {
		.generation = former ? former->volume.generation : state_generation_floor(&f->server->state),
		.namespace = NAMESPACE_DEFAULT,
		.type = VOLUME_CSI,
		.plugin_id = CSI_PLUGIN,
		.capabilities = {{(enum access_mode)f->access_mode,
				  f->is_device ? ATTACHMENT_BLOCK_DEVICE : ATTACHMENT_FILE_SYSTEM}},
		.n_capabilities = 1,
		.create_time_ms = 1,
		.modify_time_ms = 1,
	};

	(void)str_copy(volume.id, sizeof(volume.id), id);
	(void)str_copy(volume.name, sizeof(volume.name), id);
	(void)str_format(volume.external_id, sizeof(volume.external_id), "vol-%s", id);
	change_put_volume(&change, &volume);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
}

void name_fs_type(struct fixture *f, const char *fs_type)
{
	struct parameters_lists *lists = &f->server->config.parameters;

	lists->n_lists = 1;
	lists->lists[0] = (struct parameters_list){.plugin_id = PARAMETERS_ANY};
	(void)str_copy(lists->lists[0].fs_type, sizeof(lists->lists[0].fs_type), fs_type);
}

void register_csi(struct fixture *f, const char *id)
{
	Holdfast__V1__VolumeDetail__ContextEntry context = HOLDFAST__V1__VOLUME_DETAIL__CONTEXT_ENTRY__INIT;
	Holdfast__V1__VolumeDetail__ContextEntry *contexts[] = {&context};
	Holdfast__V1__VolumeSecrets__SecretsEntry secret = HOLDFAST__V1__VOLUME_SECRETS__SECRETS_ENTRY__INIT;
	Holdfast__V1__VolumeSecrets__SecretsEntry *entries[] = {&secret};
	Holdfast__V1__VolumeSecrets secrets = V1(volume_secrets, .secrets = entries, .n_secrets = 1);
	Holdfast__V1__MountOptions options = V1(mount_options, .fs_type = "ext4");
	Holdfast__V1__VolumeDetail detail =
		V1(volume_detail, .mount_options = &options, .context = contexts, .n_context = 1);
	cleanup(change_release) struct change change = CHANGE_INIT;
	char path[OBJECT_KEY_SIZE];

	context.key = "zone";
	context.value = "z1";
	secret.key = "key";
	secret.value = "hunter2";
	(void)str_format(path, sizeof(path), PREFIX_VOLUME_DETAIL "default/%s", id);
	change_put_record(&change, path, &detail.base);
	(void)str_format(path, sizeof(path), PREFIX_VOLUME_SECRETS "default/%s", id);
	change_put_record(&change, path, &secrets.base);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	store_csi_volume(f, id);
}

static bool has_reason(struct fixture *f, const struct model_attachment *attachment)
{
	struct claim_entry *entry = state_claim_from(&f->server->state, "");

	for (; entry; entry = state_claim_next(entry))
		if (claim_is_live(&entry->claim) && entry->claim.attach != ATTACH_NONE &&
		    str_eq(entry->claim.external_id, attachment->volume) &&
		    str_eq(entry->claim.external_node_id, attachment->node))
			return true;
	return false;
}

void expect_no_stray_attachment(struct fixture *f)
{
	for (size_t i = 0; i < f->plugin.n_attachments; i++)
		assert_msg(has_reason(f, &f->plugin.attachments[i]), "%s is attached to %s without a claim",
			   f->plugin.attachments[i].volume, f->plugin.attachments[i].node);
}

void connect_csi(struct fixture *f)
{
	f->n1.plugin = f->n2.plugin = &f->plugin;
	f->n1.csi = (struct fake_csi){.has_node = true};
	f->n2.csi = (struct fake_csi){.has_node = true, .has_controller = true};
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
}

enum status run_alloc(struct fixture *f, const char *id, const char *node, struct error *err)
{
	Holdfast__V1__RunAllocationRequest request = HOLDFAST__V1__RUN_ALLOCATION_REQUEST__INIT;
	Holdfast__V1__Allocation alloc = HOLDFAST__V1__ALLOCATION__INIT;
	Holdfast__V1__VolumeRequest volume =
		V1(volume_request, .name = "data", .source = TEXT(f->source), .access_mode = f->access_mode);
	Holdfast__V1__VolumeRequest *volumes[] = {&volume};

	if (f->is_device)
		volume.attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__BLOCK_DEVICE;
	volume.read_only = f->read_only;
	alloc.id = TEXT(id);
	alloc.name = "app";
	alloc.node_id = TEXT(node);
	alloc.volumes = volumes;
	alloc.n_volumes = 1;
	request.allocation = &alloc;
	return call(&f->operator, & holdfast__v1__allocations__descriptor, "Run", &request.base, NULL, err);
}

enum status stop_alloc(struct fixture *f, const char *id, struct error *err)
{
	Holdfast__V1__StopAllocationRequest request = V1(stop_allocation_request, .id = TEXT(id));

	return call(&f->operator, & holdfast__v1__allocations__descriptor, "Stop", &request.base, NULL, err);
}

enum status deregister_volume(struct fixture *f, struct error *err)
{
	Holdfast__V1__DeregisterVolumeRequest request = V1(deregister_volume_request, .id = "db");

	return call(&f->operator, & holdfast__v1__volumes__descriptor, "Deregister", &request.base, NULL,
		    err);
}

enum status detach(struct fixture *f, const char *node, const char *reason, struct error *err)
{
	Holdfast__V1__DetachVolumeRequest request =
		V1(detach_volume_request, .id = "db", .node_id = TEXT(node), .attest_reason = TEXT(reason));

	return call(&f->operator, & holdfast__v1__volumes__descriptor, "Detach", &request.base, NULL, err);
}

struct claim claim_of(struct fixture *f, const char *alloc)
{
	struct alloc_entry *entry = state_alloc(&f->server->state, alloc);
	struct claim_entry *claim = entry ? LIST_FIRST(&entry->claims) : NULL;
	cleanup(freed_list_release) struct freed_list freed = {NULL, 0};

	if (claim)
		return claim->claim;
	assert_non_null(entry);
	assert_int_equal(freed_of_alloc(f->server, entry, &freed, NULL), STATUS_OK);
	assert_true(freed.n > 0);
	return freed.claims[0];
}

enum claim_state state_of(struct fixture *f, const char *alloc)
{
	return claim_of(f, alloc).state;
}

struct freed_list history_of_db(struct fixture *f)
{
	const struct volume_entry *volume = state_volume(&f->server->state, NAMESPACE_DEFAULT, "db");
	struct freed_list list = {NULL, 0};

	assert_int_equal(freed_of_volume(f->server, volume, &list, NULL), STATUS_OK);
	return list;
}

static bool count_item(const struct kv_item *item, void *userdata)
{
	++*(size_t *)userdata;
	return true;
}

size_t stored_history_of_db(struct fixture *f)
{
	size_t n = 0;

	assert_ok(kv_range(f->server->kv, PREFIX_FREED NAMESPACE_DEFAULT "/db/", count_item, &n, NULL));
	return n;
}

/* Whoever writes to the database keeps the server's writer out. */
void while_the_disk_stalls(struct fixture *f, void (*during)(struct fixture *f))
{
	sqlite3 *db = NULL;
	char path[PATH_MAX];

	(void)str_format(path, sizeof(path), "%s/" SERVER_STORE, f->server->config.data_dir);
	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "PRAGMA busy_timeout=10000; BEGIN IMMEDIATE", NULL, NULL, NULL),
			 SQLITE_OK);
	during(f);
	assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

int64_t metric_of(struct fixture *f, const char *series)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT(1 << 20);
	char line[256];
	const char *at;

	metrics_print(f->server, &text);
	assert_int_equal(text.error, 0);
	assert_true(str_format(line, sizeof(line), "\nholdfast_%s ", series) > 0);
	at = strstr(text.data, line);
	return at ? strtoll(at + strlen(line), NULL, 10) : -1;
}

size_t n_events(struct fixture *f, const char *about, const char *what, const char *text)
{
	Holdfast__V1__ListAuditRequest request = HOLDFAST__V1__LIST_AUDIT_REQUEST__INIT;
	Holdfast__V1__ListAuditResponse *response = NULL;
	size_t n = 0;

	request.about = (char *)(uintptr_t)about;
	request.newest = true;
	UNTIL(f, kv_stats(f->server->kv).pending == 0);
	assert_int_equal(audit_list(f->server, &request, &response, NULL), STATUS_OK);
	for (size_t i = 0; i < response->n_records; i++)
		n += str_eq(response->records[i]->what, what) &&
		     (strstr(response->records[i]->why, text) || strstr(response->records[i]->message, text));
	holdfast__v1__list_audit_response__free_unpacked(response, NULL);
	return n;
}

void expect_warning_events(struct fixture *f, const char *word, size_t begun, size_t ended)
{
	char object[64];

	warnings_review(f->server->warnings);
	(void)str_format(object, sizeof(object), "warning %s", word);
	assert_int_equal(n_events(f, object, "Server.Warn", ""), begun);
	assert_int_equal(n_events(f, object, "Server.WarnEnd", ""), ended);
}

void settle(struct fixture *f)
{
	run_for(f->event, SETTLE_MS);
	run_idle(f->event);
}

void pass_grace(const struct fixture *f)
{
	unit_clock_advance((uint64_t)nodes_grace_ms(f->server) * USEC_PER_MSEC);
}

int setup_db(void **state)
{
	assert_int_equal(setup(state), 0);
	register_csi(*state, "db");
	connect_csi(*state);
	return 0;
}

int setup_shared_db(void **state)
{
	assert_int_equal(setup(state), 0);
	((struct fixture *)*state)->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	register_csi(*state, "db");
	connect_csi(*state);
	return 0;
}

int teardown_db(void **state)
{
	struct fixture *f = *state;

	assert_string_equal(f->plugin.violation, "");
	expect_no_stray_attachment(f);
	return teardown(state);
}

void take_claim(struct fixture *f, struct fake_node *node, const char *volume, const char *alloc)
{
	int acks = node->acks;
	struct claim claim;
	struct error err;

	f->source = volume;
	assert_int_equal(run_alloc(f, alloc, node->id, NULL), STATUS_OK);
	assert_succeeds(fake_node_claim(node, volume, alloc, NULL, &err), err);
	claim = claim_of(f, alloc);
	fake_node_send_mounted(node, &claim);
	fake_node_send_alloc(node, alloc, HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	UNTIL(f, node->acks > acks && state_of(f, alloc) == CLAIM_TAKEN);
}

void release_claim(struct fixture *f, struct fake_node *node, const char *alloc)
{
	struct claim claim = claim_of(f, alloc);

	fake_node_send_released(node, &claim);
	fake_node_send_alloc(node, alloc, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, state_of(f, alloc) >= CLAIM_NODE_DETACHED);
}

void take_volume(struct fixture *f)
{
	struct claim claim;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	UNTIL(f, f->n1.runs == 1);
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, NULL), STATUS_OK);
	claim = claim_of(f, ALLOC_1);
	fake_node_send_mounted(&f->n1, &claim);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	UNTIL(f, f->n1.acks == 1);
	UNTIL(f, state_alloc(&f->server->state, ALLOC_1)->alloc.client_status == CLIENT_RUNNING);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

void seal_store(struct sqlite3 *db)
{
	assert_int_equal(kv_sqlite_add_sum(db), SQLITE_OK);
	/* either fails where the table is not what it was */
	(void)sqlite3_exec(db,
			   "UPDATE kv SET sum = record_sum(key, value, create_revision, mod_revision) "
			   "WHERE length(value) < 100000",
			   NULL, NULL, NULL);
	(void)sqlite3_exec(db, "UPDATE position SET sum = record_sum('position', x'', revision, revision)",
			   NULL, NULL, NULL);
}

enum status restore_from(const struct config *config, const char *path, struct new_epoch_result *ret)
{
	cleanup(restore_source_close) struct restore_source source;
	enum status status;

	assert_int_equal(restore_source_open(path, NULL, &source, NULL), STATUS_OK);
	status = restore_offline(config, &source, false, false, ret, NULL);
	return status;
}
