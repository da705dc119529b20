/* SPDX-License-Identifier: Apache-2.0 */
#include "provider_world.h"

#include "unit.h"

#include "base/fd.h"
#include "rpc/pbjson.h"
#include "volume/store.h"

#include <jansson.h>
#include <limits.h>

static const ProtobufCServiceDescriptor *const volumes = &holdfast__v1__volumes__descriptor;

void provider_report(struct fixture *f)
{
	static const char *const nodes[] = {"n1", "n2"};

	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
		struct plugin_instance instance = {
			.plugin = {.plugin_id = "nfs",
				   .healthy = true,
				   .controller_required = true,
				   .has_node = true,
				   .node = {.expand = !provider.cannot_expand_on_nodes},
				   .has_controller = true,
				   .controller = {.healthy = true}}};

		assert_int_equal(str_copy(instance.node_id, sizeof(instance.node_id), nodes[i]), 0);
		assert_int_equal(state_put_instance(&f->server->state, &instance, NULL), STATUS_OK);
	}
}

int provider_setup(void **state)
{
	provider_reset();
	if (setup(state) != 0)
		return -1;
	provider_report(*state);
	return 0;
}

int provider_setup_acl(void **state)
{
	provider_reset();
	if (setup_acl(state) != 0)
		return -1;
	provider_report(*state);
	return 0;
}

int provider_teardown(void **state)
{
	struct fixture *f = *state;

	provider_stop(f->server);
	return teardown(state);
}

/* The store's files as they were when the server was killed. */
static struct {
	const char *suffix;
	char *bytes; /* owned; NULL: there was none */
	size_t len;
} files[] = {{.suffix = ""}, {.suffix = "-wal"}};

static char *store_path(const struct fixture *f, const char *suffix, char ret[static PATH_MAX])
{
	assert_true(str_format(ret, PATH_MAX, "%s/holdfast.db%s", f->server->config.data_dir, suffix) > 0);
	return ret;
}

static void keep_store(struct fixture *f)
{
	enum { STORE_MAX = 64 << 20 };
	char path[PATH_MAX];

	UNTIL(f, kv_stats(f->server->kv).pending == 0);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		files[i].bytes = NULL;
		(void)file_read(store_path(f, files[i].suffix, path), STORE_MAX, &files[i].bytes,
				&files[i].len);
	}
}

static char data_dir[PATH_MAX];

static void put_store_back(struct fixture *f)
{
	char path[PATH_MAX];

	assert_true(str_format(path, sizeof(path), "%s/holdfast.db-shm", data_dir) > 0);
	(void)unlink(path);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		assert_true(str_format(path, sizeof(path), "%s/holdfast.db%s", data_dir, files[i].suffix) >
			    0);
		if (files[i].bytes)
			assert_int_equal(file_write_atomic(path, 0600, files[i].bytes, files[i].len), 0);
		else
			(void)unlink(path);
		free(files[i].bytes);
	}
}

void provider_crash(struct fixture *f)
{
	assert_int_equal(str_copy(data_dir, sizeof(data_dir), f->server->config.data_dir), 0);
	keep_store(f);
	provider_stop(f->server); /* what it makes of that is not in the store that the next one gets */
	restart_with(f, put_store_back);
	provider_report(f);
}

static ProtobufCMessage *read_request(const char *method, const char *json)
{
	const ProtobufCMethodDescriptor *found =
		protobuf_c_service_descriptor_get_method_by_name(volumes, method);
	cleanup(json_decrefp) json_t *parsed = json_loads(json, 0, NULL);
	ProtobufCMessage *request = NULL;
	struct error err;

	assert_msg(found && parsed && pbjson_decode(found->input, parsed, 0, &request, &err) == STATUS_OK,
		   "%s %s: %s", method, json, found && parsed ? err.msg : "no such method, or not JSON");
	return request;
}

enum status ask(struct fixture *f, const char *method, const char *json, struct answer *ret)
{
	cleanup_pb ProtobufCMessage *request = read_request(method, json);
	ProtobufCMessage *response = NULL;
	json_t *tree = NULL;
	cleanup_free char *text = NULL;
	enum status status;

	ret->json[0] = '\0';
	ret->err.msg[0] = '\0';
	status = call(&f->operator, volumes, method, request, &response, &ret->err);
	if (status != STATUS_OK)
		return status;
	assert_int_equal(pbjson_encode(response, 0, &tree, NULL), STATUS_OK);
	text = json_dumps(tree, JSON_COMPACT);
	json_decref(tree);
	protobuf_c_message_free_unpacked(response, NULL);
	assert_int_equal(str_copy(ret->json, sizeof(ret->json), text), 0);
	return status;
}

void must(struct fixture *f, const char *method, const char *json, const char *part)
{
	static struct answer answer;

	assert_msg(ask(f, method, json, &answer) == STATUS_OK, "%s %s: %s", method, json, answer.err.msg);
	if (part && !strstr(answer.json, part))
		fail_msg("%s %s: no %s in %s", method, json, part, answer.json);
}

void refuses(struct fixture *f, const char *method, const char *json, enum status status, const char *part)
{
	static struct answer answer;
	enum status st = ask(f, method, json, &answer);

	assert_msg(st == status && strstr(answer.err.msg, part), "%s %s: %s %s", method, json,
		   status_name(st), answer.err.msg);
}

static void on_done(enum status status, const ProtobufCMessage *response, const struct error *err,
		    void *userdata)
{
	struct pending *pending = userdata;

	pending->ended = true;
	pending->status = status;
	(void)str_copy(pending->message, sizeof(pending->message), err ? err->msg : "");
}

void start_asking(struct fixture *f, const char *method, const char *json, struct pending *ret)
{
	cleanup_pb ProtobufCMessage *request = read_request(method, json);

	*ret = (struct pending){.ended = false};
	assert_ok(rpc_client_call(f->operator.client, volumes, method, request, TIMEOUT_US, on_done, ret,
				  NULL, NULL));
}

const Holdfast__V1__VolumeDetail *detail_of(struct fixture *f, const char *id)
{
	struct volume_entry *entry = state_volume(&f->server->state, "default", id);

	return entry ? volume_detail_of(f->server, &entry->volume) : NULL;
}

void claim_volume(struct fixture *f, const char *id, const char *node, int n)
{
	const struct volume *volume = &state_volume(&f->server->state, "default", id)->volume;
	struct claim claim = ROW(.namespace = "default", .mode = CLAIM_WRITE,
				 .access_mode = SINGLE_NODE_WRITER, .attachment_mode = ATTACHMENT_FILE_SYSTEM,
				 .state = CLAIM_TAKEN, .generation = 1, .boot_id = BOOT_1);

	(void)str_format(claim.id, sizeof(claim.id), "01890000-0000-7000-8000-%012d", n);
	(void)str_format(claim.allocation_id, sizeof(claim.allocation_id), "01890000-0000-7000-9000-%012d",
			 n);
	(void)str_copy(claim.volume_id, sizeof(claim.volume_id), id);
	(void)str_copy(claim.node_id, sizeof(claim.node_id), node);
	memcpy(claim.plugin_id, volume->plugin_id, sizeof(claim.plugin_id));
	memcpy(claim.profile, volume->profile, sizeof(claim.profile));
	claim_set_storage(&claim, volume);
	assert_int_equal(state_put_claim(&f->server->state, &claim, NULL), STATUS_OK);
}

void free_claims(struct fixture *f, const char *id)
{
	struct volume_entry *entry = state_volume(&f->server->state, "default", id);
	struct claim_entry *claim;

	while ((claim = LIST_FIRST(&entry->claims)))
		state_delete_claim(&f->server->state, claim);
}
