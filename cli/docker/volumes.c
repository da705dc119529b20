/* SPDX-License-Identifier: Apache-2.0 */
#include "docker/volumes.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/str.h"
#include "call/connect.h"
#include "command/settings.h"
#include "command/values.h"
#include "docker/claim.h"
#include "docker/record.h"
#include "hold/place.h"
#include "model/message.h"
#include "rpc/pbjson.h"
#include "show/output.h"

#include <errno.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <stdio.h>
#include <string.h>

/* Limits a release that no engine waits for: the next Mount of the volume waits for it. */
#define RELEASE_US (8 * USEC_PER_SEC)

DEFINE_CLEANUP(Docker__VolumeRecord, record_free)

/* A request at work. */
struct task {
	const struct docker_volumes *volumes;
	const Docker__VolumeRequest *request;
	Docker__VolumeResponse *answer;
	Docker__VolumeRecord *record; /* owned; NULL: there is no record */
};

typedef enum status method_fn(struct task *task, struct error *err);

/* Requests only lack the const. */
static char *lent(const char *text)
{
	return (char *)(uintptr_t)text;
}

static const char *option(const Docker__VolumeRecord *record, const char *key)
{
	const struct message_text_entry *entry = message_text_map_find(
		(struct message_text_entry *const *)(void *)record->opts, record->n_opts, key);

	return entry ? entry->value : NULL;
}

MESSAGE_ASSERT_TEXT_ENTRY(Docker__VolumeRecord__OptsEntry);
MESSAGE_ASSERT_TEXT_ENTRY(Docker__VolumeRequest__OptsEntry);

static const char *volume_id(const Docker__VolumeRecord *record)
{
	const char *id = option(record, "volume");

	return id ? id : record->name;
}

static const char *namespace_of(const struct docker_volumes *volumes, const Docker__VolumeRecord *record)
{
	const char *name = option(record, "namespace");

	return name ? name : option_text(volumes->inv, OPT_NAMESPACE);
}

/* --- the allocation ------------------------------------------------------------------------------------ */

enum option_kind { OPTION_OF_ALLOC, OPTION_WORD, OPTION_FLAG, OPTION_WAIT };

/* The options of `docker volume create -o`; OPTION_WORD and OPTION_FLAG are fields of a VolumeRequest. */
static const struct {
	const char *key;
	enum option_kind kind;
} options[] = {
	{"volume", OPTION_OF_ALLOC},  {"namespace", OPTION_OF_ALLOC}, {"access_mode", OPTION_WORD},
	{"propagation", OPTION_WORD}, {"read_only", OPTION_FLAG},     {"exec", OPTION_FLAG},
	{"wait", OPTION_WAIT},
};

static enum status put_option(json_t *json, const char *key, const char *value, struct error *err)
{
	json_t *item = NULL;
	uint32_t wait_ms;
	size_t i = 0;

	while (i < ARRAY_SIZE(options) && !str_eq(options[i].key, key))
		i++;
	if (i == ARRAY_SIZE(options))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "unknown option %s. Known: volume, namespace, access_mode, propagation, "
				 "read_only, exec, wait",
				 key);
	if (options[i].kind == OPTION_OF_ALLOC)
		return STATUS_OK;
	if (options[i].kind == OPTION_WAIT)
		return value_parse_wait("option wait", value, &wait_ms, err);
	if (options[i].kind == OPTION_WORD)
		item = json_string(value);
	else if (str_eq(value, "true") || str_eq(value, "false"))
		item = json_boolean(str_eq(value, "true"));
	else
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "option %s is true or false, not '%s'", key,
				 value);
	return json_object_set_new(json, key, item) == 0 ? STATUS_OK : error_no_memory(err, "an option");
}

/* The volume as the allocation asks for it. */
static enum status make_volume(const Docker__VolumeRecord *record, Holdfast__V1__VolumeRequest **ret,
			       struct error *err)
{
	cleanup(json_decrefp) json_t *json =
		json_pack("{s:s, s:s, s:s, s:s}", "name", "data", "source", volume_id(record), "access_mode",
			  "single-node-writer", "attachment_mode", "file-system");
	ProtobufCMessage *message = NULL;
	enum status status = json ? STATUS_OK : error_no_memory(err, "a volume's request");

	for (size_t i = 0; status == STATUS_OK && i < record->n_opts; i++)
		status = put_option(json, record->opts[i]->key, record->opts[i]->value, err);
	if (status == STATUS_OK)
		status = pbjson_decode(&holdfast__v1__volume_request__descriptor, json, PBJSON_SPEC, &message,
				       err);
	if (status == STATUS_OK)
		*ret = (void *)message;
	return status;
}

static enum status make_alloc(const struct docker_volumes *volumes, const Docker__VolumeRecord *record,
			      Holdfast__V1__Allocation **ret, struct error *err)
{
	Holdfast__V1__Allocation blank = HOLDFAST__V1__ALLOCATION__INIT;
	cleanup_message Holdfast__V1__VolumeRequest *volume = NULL;
	char name[RECORD_NAME_MAX + sizeof("docker-")];

	TRY(make_volume(record, &volume, err));
	(void)str_format(name, sizeof(name), "docker-%s", record->name);
	blank.name = name;
	blank.namespace_ = lent(namespace_of(volumes, record));
	blank.node_id = lent(volumes->node);
	blank.driver = lent("none");
	blank.n_volumes = 1;
	blank.volumes = &volume;
	*ret = (void *)message_convert(&holdfast__v1__allocation__descriptor, &blank.base);
	return *ret ? STATUS_OK : error_no_memory(err, "an allocation");
}

/* --- the methods --------------------------------------------------------------------------------------- */

static enum status check_name(const char *name, struct error *err)
{
	if (id_is_name(name, RECORD_NAME_MAX))
		return STATUS_OK;
	return error_set(err, STATUS_INVALID_ARGUMENT, 0,
			 "volume name '%.80s' must be 1 to %d of A-Z a-z 0-9 _ and -. Next, for another id: "
			 "give -o volume=ID",
			 name, RECORD_NAME_MAX);
}

/* Has the server the volume, and may we see it? */
static enum status look_up(const struct docker_volumes *volumes, const Docker__VolumeRecord *record,
			   struct error *err)
{
	cleanup_connection struct connection *connection = NULL;
	cleanup_message Holdfast__V1__GetVolumeResponse *answer = NULL;
	Holdfast__V1__GetVolumeRequest request = HOLDFAST__V1__GET_VOLUME_REQUEST__INIT;
	enum status status = connect_server(volumes->inv, &connection, err);

	request.id = lent(volume_id(record));
	request.namespace_ = lent(namespace_of(volumes, record));
	if (status == STATUS_OK)
		status = connection_call(connection, &holdfast__v1__volumes__descriptor, "Get", &request.base,
					 CALL_TIMEOUT_US, &answer, err);
	/* a node's token may mount and not look: it is asked for again when it is mounted */
	return status == STATUS_PERMISSION_DENIED ? STATUS_OK : status;
}

static enum status answer_create(struct task *task, struct error *err)
{
	cleanup_message Holdfast__V1__VolumeRequest *volume = NULL;
	cleanup(record_freep) Docker__VolumeRecord *record = NULL;

	TRY(record_new(task->request, &record, err));
	TRY(make_volume(record, &volume, err));
	if (task->record) {
		if (message_text_maps_eq((void *)task->record->opts, task->record->n_opts,
					 (void *)record->opts, record->n_opts))
			return STATUS_OK;
		return error_set(
			err, STATUS_ALREADY_EXISTS, 0,
			"volume %s was made with other options. Next: docker volume rm %s, which keeps "
			"its data",
			record->name, record->name);
	}
	TRY(look_up(task->volumes, record, err));
	return record_save(task->volumes->dir, record, err);
}

/* Calls @work with a connection and the allocation to run. */
static enum status with_claim(struct task *task, enum status (*work)(struct docker_claim *, struct error *),
			      struct error *err)
{
	const struct docker_volumes *volumes = task->volumes;
	cleanup_connection struct connection *connection = NULL;
	cleanup_message Holdfast__V1__Allocation *alloc = NULL;
	struct docker_claim claim = {.inv = volumes->inv,
				     .dir = volumes->dir,
				     .publish_dir = publish_dir(),
				     .record = task->record,
				     .timeout_us = volumes->timeout_us};
	const char *wait = option(task->record, "wait");
	enum status status = make_alloc(volumes, task->record, &alloc, err);

	if (status == STATUS_OK && wait)
		status = value_parse_wait("option wait", wait, &claim.wait_ms, err);
	if (status == STATUS_OK)
		status = connect_server(volumes->inv, &connection, err);
	claim.alloc = alloc;
	claim.connection = connection;
	return status == STATUS_OK ? work(&claim, err) : status;
}

static enum status answer_mount(struct task *task, struct error *err)
{
	if (strlen(task->request->id) > RECORD_ID_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the ID of a mount has at most %d bytes",
				 RECORD_ID_MAX);
	TRY(with_claim(task, docker_claim_take, err));
	TRY(record_add_mount(task->record, task->request->id, err));
	TRY(record_save(task->volumes->dir, task->record, err));
	if (!message_set_text(&task->answer->mountpoint, task->record->path))
		return error_no_memory(err, "an answer");
	return STATUS_OK;
}

/* Changes nothing yet: podman counts a mount until this answer, and mounts no second time what it counts. */
static enum status answer_unmount(struct task *task, struct error *err)
{
	return STATUS_OK;
}

static enum status check_over(struct docker_claim *claim, struct error *err)
{
	if (docker_claim_is_over(claim))
		return STATUS_OK;
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"volume %s is mounted by %zu containers. Next, if they are gone: holdfast alloc stop %s",
		claim->record->name, claim->record->n_mount_ids, claim->record->alloc_id);
}

static enum status answer_remove(struct task *task, struct error *err)
{
	bool is_mounted = task->record->n_mount_ids > 0;

	TRY(with_claim(task, is_mounted ? check_over : docker_claim_release, err));
	return record_remove(task->volumes->dir, task->record->name, err);
}

/* Where it is mounted now; "": it is not. */
static const char *mountpoint(const Docker__VolumeRecord *record)
{
	bool is_mounted = record->n_mount_ids > 0 && record->path[0] && !hold_is_gone(record->path);

	return is_mounted ? record->path : "";
}

static enum status describe(const Docker__VolumeRecord *record, Docker__MountedVolume **ret,
			    struct error *err)
{
	Docker__MountedVolume volume = DOCKER__MOUNTED_VOLUME__INIT;

	volume.name = record->name;
	volume.mountpoint = lent(mountpoint(record));
	*ret = (void *)message_convert(&docker__mounted_volume__descriptor, &volume.base);
	return *ret ? STATUS_OK : error_no_memory(err, "an answer");
}

static enum status answer_get(struct task *task, struct error *err)
{
	return describe(task->record, &task->answer->volume, err);
}

static enum status answer_path(struct task *task, struct error *err)
{
	return message_set_text(&task->answer->mountpoint, mountpoint(task->record))
		       ? STATUS_OK
		       : error_no_memory(err, "an answer");
}

static enum status list_one(const char *name, void *userdata, struct error *err)
{
	struct task *task = userdata;
	Docker__VolumeResponse *answer = task->answer;
	cleanup(record_freep) Docker__VolumeRecord *record = NULL;
	enum status status = record_load(task->volumes->dir, name, &record, err);
	Docker__MountedVolume **grown;

	if (status == STATUS_NOT_FOUND) /* removed in between */
		return STATUS_OK;
	grown = reallocarray(answer->volumes, answer->n_volumes + 1, sizeof(Docker__MountedVolume *));
	if (!grown)
		return error_no_memory(err, "an answer");
	answer->volumes = grown;
	if (status == STATUS_OK)
		status = describe(record, &grown[answer->n_volumes], err);
	if (status == STATUS_OK)
		answer->n_volumes++;
	return status;
}

static enum status answer_list(struct task *task, struct error *err)
{
	return record_each(task->volumes->dir, list_one, task, err);
}

static enum status answer_activate(struct task *task, struct error *err)
{
	char **names = calloc(1, sizeof(*names));

	if (names)
		names[0] = strdup("VolumeDriver");
	if (!names || !names[0]) {
		free(names);
		return error_no_memory(err, "an answer");
	}
	task->answer->implements = names;
	task->answer->n_implements = 1;
	return STATUS_OK;
}

/* Reports the scope "local": only the engine of this machine knows the volumes of Create. */
static enum status answer_capabilities(struct task *task, struct error *err)
{
	Docker__Capability capability = DOCKER__CAPABILITY__INIT;

	capability.scope = lent("local");
	task->answer->capabilities =
		(void *)message_convert(&docker__capability__descriptor, &capability.base);
	return task->answer->capabilities ? STATUS_OK : error_no_memory(err, "an answer");
}

static const struct method {
	const char *name;
	method_fn *answer;
	bool has_name; /* of a volume */
	bool changes;  /* holds the volume's lock */
	bool is_new;   /* the volume need not be there */
	bool is_gone;  /* without the volume there is nothing to do */
} methods[] = {
	{.name = "Activate", .answer = answer_activate},
	{.name = "Capabilities", .answer = answer_capabilities},
	{.name = "List", .answer = answer_list},
	{.name = "Get", .answer = answer_get, .has_name = true},
	{.name = "Path", .answer = answer_path, .has_name = true},
	{.name = "Create", .answer = answer_create, .has_name = true, .changes = true, .is_new = true},
	{.name = "Mount", .answer = answer_mount, .has_name = true, .changes = true},
	{.name = "Unmount", .answer = answer_unmount, .has_name = true, .changes = true, .is_gone = true},
	{.name = "Remove", .answer = answer_remove, .has_name = true, .changes = true, .is_gone = true},
};

static enum status run_method(struct task *task, const struct method *method, int *ret_lock,
			      struct error *err)
{
	cleanup(record_freep) Docker__VolumeRecord *record = NULL;
	const char *dir = task->volumes->dir, *name = task->request->name;
	enum status status = method->has_name ? check_name(name, err) : STATUS_OK;

	if (status == STATUS_OK && method->changes)
		status = record_lock(dir, name, true, ret_lock, err);
	if (status == STATUS_OK && method->has_name)
		status = record_load(dir, name, &record, err);
	if (status == STATUS_NOT_FOUND && method->is_gone)
		return STATUS_OK;
	if (status == STATUS_NOT_FOUND && method->is_new)
		status = STATUS_OK;
	task->record = record;
	return status == STATUS_OK ? method->answer(task, err) : status;
}

static const struct method *find_method(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
		if (str_eq(methods[i].name, name))
			return &methods[i];
	return NULL;
}

/* Writes the server's message, and the holder if the message does not name it. */
static void put_error(struct task *task, const struct error *err)
{
	const Holdfast__V1__ErrorDetails *details = (const void *)task->volumes->inv->details;
	const char *who = details && details->n_claims > 0 ? details->claims[0]->text : "";
	char text[2 * ERROR_MSG_MAX];

	(void)snprintf(text, sizeof(text), "holdfast: %s%s%s", err->msg,
		       who[0] && !strstr(err->msg, who) ? ": " : "", strstr(err->msg, who) ? "" : who);
	(void)message_set_text(&task->answer->err, text);
}

Docker__VolumeResponse *docker_volumes_answer(const struct docker_volumes *volumes, const char *method,
					      const Docker__VolumeRequest *request, int *ret_lock)
{
	Docker__VolumeResponse blank = DOCKER__VOLUME_RESPONSE__INIT;
	struct task task = {.volumes = volumes, .request = request};
	const struct method *row = find_method(method);
	struct error err = {.msg = ""};
	enum status status;

	*ret_lock = -1;
	task.answer = (void *)message_convert(&docker__volume_response__descriptor, &blank.base);
	if (!task.answer)
		return NULL;
	status = row ? run_method(&task, row, ret_lock, &err)
		     : error_set(&err, STATUS_UNIMPLEMENTED, 0, "there is no method %s", method);
	if (status != STATUS_OK)
		put_error(&task, &err);
	return task.answer;
}

static void release_unused(const struct docker_volumes *volumes, Docker__VolumeRecord *record)
{
	struct docker_volumes brief = *volumes;
	struct task task = {.volumes = &brief, .record = record};
	struct error err;

	if (record->n_mount_ids > 0 || !record->alloc_id[0])
		return;
	brief.timeout_us = volumes->timeout_us < RELEASE_US ? volumes->timeout_us : RELEASE_US;
	if (with_claim(&task, docker_claim_release, &err) != STATUS_OK)
		print_note("holdfast: volume %s is not released yet: %s", record->name, err.msg);
}

/* A mount that has ended. */
struct ended {
	const char *name; /* of its volume */
	const char *id;
	char *alloc_id; /* owned; NULL: not looked up yet */
};

/* Returns false if the record still has the mount. The volume is released even then, if it was the last one.
 */
static bool forget_mount(const struct docker_volumes *volumes, struct ended *mount)
{
	cleanup(record_freep) Docker__VolumeRecord *record = NULL;
	struct error err;
	enum status status = record_load(volumes->dir, mount->name, &record, &err);

	if (status == STATUS_NOT_FOUND)
		return true;
	if (status == STATUS_OK) {
		if (mount->alloc_id && !str_eq(mount->alloc_id, record->alloc_id))
			return true; /* a later mount may have its id */
		mount->alloc_id = mount->alloc_id ? mount->alloc_id : strdup(record->alloc_id);
		record_remove_mount(record, mount->id);
		status = record_save(volumes->dir, record, &err);
	}
	if (status != STATUS_OK)
		print_note("holdfast: volume %s still counts a mount that has ended: %s", mount->name,
			   err.msg);
	if (record)
		release_unused(volumes, record);
	return status == STATUS_OK || !mount->alloc_id;
}

void docker_volumes_unmount(const struct docker_volumes *volumes, const char *name, const char *id, int *lock,
			    bool (*wait)(void))
{
	struct ended mount = {.name = name, .id = id};
	struct error err;

	while (!forget_mount(volumes, &mount)) {
		close_fdp(lock);
		if (!wait() || record_lock(volumes->dir, name, true, lock, &err) != STATUS_OK)
			break;
	}
	free(mount.alloc_id);
}

static enum status sweep_one(const char *name, void *userdata, struct error *err)
{
	const struct docker_volumes *volumes = userdata;
	cleanup(record_freep) Docker__VolumeRecord *record = NULL;
	cleanup_close int lock = -1;
	enum status status;

	if (record_lock(volumes->dir, name, false, &lock, err) != STATUS_OK)
		return STATUS_OK;
	status = record_load(volumes->dir, name, &record, err);
	if (status == STATUS_OK)
		release_unused(volumes, record);
	else if (status != STATUS_NOT_FOUND)
		print_note("holdfast: %s", err->msg);
	return STATUS_OK;
}

void docker_volumes_sweep(const struct docker_volumes *volumes)
{
	struct error err;

	if (record_remove_unfinished(volumes->dir, &err) != STATUS_OK)
		print_note("holdfast: %s", err.msg);
	if (record_each(volumes->dir, sweep_one, (void *)(uintptr_t)volumes, &err) != STATUS_OK)
		print_note("holdfast: %s", err.msg);
}
