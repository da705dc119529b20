/* SPDX-License-Identifier: Apache-2.0 */
/* `apply`: what a folder describes is what the server has. Each file is one object; its name has the kind:
 * NAME.policy.hcl, NAME.volume.hcl, NAME.job.hcl, or .json. */

#include "base/cleanup.h"
#include "base/folder.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "call/connect.h"
#include "call/pages.h"
#include "call/spec.h"
#include "command/commands.h"
#include "command/values.h"
#include "model/volume.h"
#include "model/volume_detail.h"
#include "operator/policy.h"
#include "rpc/pbjson.h"
#include "show/output.h"

#include <dirent.h>
#include <errno.h>
#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
	ITEMS_MAX = 1024,
	NAME_SIZE = 256, /* an id has up to 128 bytes */
};

/* In this order they are applied: a job needs its volumes, and the caller's token a policy. */
enum kind { KIND_POLICY, KIND_VOLUME, KIND_JOB, KIND_N };

static const struct {
	const char *name;
	size_t id, namespace; /* where the message has these texts; a policy has no namespace */
} kinds[KIND_N] = {
	{"policy", offsetof(Holdfast__V1__AccessPolicy, name)},
	{"volume", offsetof(Holdfast__V1__Volume, id), offsetof(Holdfast__V1__Volume, namespace_)},
	{"job", offsetof(Holdfast__V1__Job, id), offsetof(Holdfast__V1__Job, namespace_)},
};

/* A file, and what became of it. */
struct item {
	enum kind kind;
	char path[PATH_MAX];
	char name[NAME_SIZE];	  /* of the file, without its kind */
	uint32_t member;	  /* of those that a volume's file is for */
	ProtobufCMessage *wanted; /* Policy, Volume or Job; owned */
	bool is_known, is_same;
	struct strbuf diff; /* a line for each field that differs */
	struct error err;   /* STATUS_OK: it was applied, or would be */
};

struct apply {
	struct invocation *inv;
	struct connection *connection;
	char folder[PATH_MAX]; /* with a slash at its end */
	char within[PATH_MAX]; /* that its files must be in; "": they may lead anywhere */
	struct item *items;    /* owned array */
	size_t n;
};

static void apply_release(struct apply *apply)
{
	for (size_t i = 0; i < apply->n; i++) {
		message_freep(&apply->items[i].wanted);
		strbuf_release(&apply->items[i].diff);
	}
	free(apply->items);
	connection_free(apply->connection);
}

static const Holdfast__V1__Volume *volume_of(const struct item *item)
{
	return (const Holdfast__V1__Volume *)(const void *)item->wanted;
}

static char **text_at(const struct item *item, size_t offset)
{
	return (char **)(void *)((char *)item->wanted + offset);
}

static const char *id_of(const struct item *item)
{
	return *text_at(item, kinds[item->kind].id);
}

static const char *namespace_of(const struct item *item)
{
	return item->kind == KIND_POLICY ? ""
					 : namespace_or_default(*text_at(item, kinds[item->kind].namespace));
}

/* As an argument or, as kubectl has it, behind -f. */
static const char *folder_of(const struct invocation *inv)
{
	return inv->n_args > 0 ? inv->args[0] : inv->options[OPT_FILENAME];
}

/* --- files --- */

/* "db.volume.hcl": @ret_kind volume, @ret_name "db". False: the file is no such. */
static bool split_name(const char *file, enum kind *ret_kind, char ret_name[static NAME_SIZE])
{
	for (int kind = 0; kind < KIND_N; kind++) {
		const char *const endings[] = {"hcl", "json"};

		for (size_t i = 0; i < ARRAY_SIZE(endings); i++) {
			char ending[NAME_SIZE];
			size_t n = strlen(file), n_ending;

			(void)str_format(ending, sizeof(ending), ".%s.%s", kinds[kind].name, endings[i]);
			n_ending = strlen(ending);
			if (n <= n_ending || !str_eq(file + n - n_ending, ending))
				continue;
			*ret_kind = (enum kind)kind;
			return str_format(ret_name, NAME_SIZE, "%.*s", (int)(n - n_ending), file) >= 0;
		}
	}
	return false;
}

/* @ret_members how many volumes the file of a volume is for; 0: one */
static enum status load_conf(struct apply *apply, struct item *item, uint32_t *ret_members, struct error *err)
{
	cleanup(conf_freep) struct conf *conf = NULL;
	cleanup_close int fd = -EBADF;

	*ret_members = 0;
	TRY(spec_open_within(item->path, apply->within, &fd, err));
	if (item->kind == KIND_POLICY)
		return policy_read(fd, item->path, item->name, (void *)&item->wanted, err);
	TRY(conf_load_open(fd, item->path, item->kind == KIND_JOB ? CONF_REFERENCES : CONF_NO_TEMPLATES,
			   &conf, err));
	if (item->kind == KIND_JOB)
		return spec_job(conf, (void *)&item->wanted, err);
	TRY(spec_members(conf, ret_members, err));
	return spec_volume(conf, apply->folder, apply->within, (void *)&item->wanted, err);
}

static enum status load_item(struct apply *apply, struct item *item, uint32_t *ret_members, struct error *err)
{
	const char *namespace = apply->inv->options[OPT_NAMESPACE];

	if (item->kind == KIND_POLICY && namespace)
		return usage_error(
			apply->inv, err,
			"%s: policies belong to the cluster, not to namespace %s: apply it without "
			"--namespace and with no context that has one",
			item->path, namespace);
	TRY(load_conf(apply, item, ret_members, err));
	return item->kind == KIND_POLICY ? STATUS_OK
					 : option_apply(apply->inv, OPT_NAMESPACE,
							text_at(item, kinds[item->kind].namespace), err);
}

static int compare_items(const void *a_, const void *b_)
{
	const struct item *a = a_, *b = b_;

	int paths = strcmp(a->path, b->path);

	if (a->kind != b->kind)
		return (int)a->kind - (int)b->kind;
	return paths != 0 ? paths : (a->member > b->member) - (a->member < b->member);
}

static enum status add_file(struct apply *apply, const char *file, struct error *err)
{
	struct item *item = &apply->items[apply->n];

	memset(item, 0, sizeof(*item));
	if (file[0] == '.' || !split_name(file, &item->kind, item->name))
		return STATUS_OK; /* hidden from ls, a README, a file of secrets */
	if (!str_is_text(file))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the name of file %s in %s has a byte that is no UTF-8 or cannot be "
				 "printed: rename it",
				 file, folder_of(apply->inv));
	if (str_format(item->path, sizeof(item->path), "%s%s", apply->folder, file) < 0)
		return usage_error(apply->inv, err, "the name of a file in it is too long");
	item->diff = (struct strbuf)STRBUF_INIT(PBJSON_TEXT_MAX);
	apply->n++;
	return STATUS_OK;
}

static enum status list_files(struct apply *apply, struct error *err)
{
	cleanup_closedir DIR *folder = opendir(apply->folder);
	const struct dirent *entry;
	int r = folder ? 0 : -errno;

	if (r == -ENOTDIR)
		return usage_error(apply->inv, err,
				   "%s is no folder; for one file: holdfast job run FILE, or holdfast volume "
				   "register FILE",
				   folder_of(apply->inv));
	while (folder && (r = folder_next(folder, &entry)) > 0) {
		if (apply->n == ITEMS_MAX)
			return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "%s has more than %d files",
					 apply->folder, ITEMS_MAX);
		TRY(add_file(apply, entry->d_name, err));
	}
	return r < 0 ? error_set(err, status_from_errno(r), r, "cannot read the folder %s", apply->folder)
		     : STATUS_OK;
}

/* Makes items of the other members of a volume's file; @first is that of the first one. */
static enum status add_members(struct apply *apply, size_t first, uint32_t members, struct error *err)
{
	cleanup_free char *id = strdup(volume_of(&apply->items[first])->id);

	if (!id)
		return error_no_memory(err, "the members");
	for (uint32_t i = 0; i < members; i++) {
		struct item *item = &apply->items[i == 0 ? first : apply->n];
		uint32_t same;

		if (i > 0 && apply->n == ITEMS_MAX)
			return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "%s has more than %d objects",
					 apply->folder, ITEMS_MAX);
		if (i > 0) {
			*item = apply->items[first];
			item->wanted = NULL;
			item->diff = (struct strbuf)STRBUF_INIT(PBJSON_TEXT_MAX);
			item->member = i;
			apply->n++;
			TRY(load_item(apply, item, &same, err));
		}
		TRY(spec_member((Holdfast__V1__Volume *)(void *)item->wanted, id, i, err));
	}
	return STATUS_OK;
}

/* The last file would win, and the next command would change the object again. */
static enum status check_once(const struct apply *apply, struct error *err)
{
	enum status status = STATUS_OK;

	for (size_t i = 0; i < apply->n; i++)
		for (size_t k = 0; k < i; k++) {
			const struct item *a = &apply->items[k], *b = &apply->items[i];
			struct error one;

			if (a->kind == b->kind && str_eq(id_of(a), id_of(b)) &&
			    str_eq(namespace_of(a), namespace_of(b)))
				status = error_collect(status,
						       error_set(&one, STATUS_INVALID_ARGUMENT, 0,
								 "%s: %s %s is described by %s already",
								 b->path, kinds[b->kind].name, id_of(b),
								 a->path),
						       &one, err);
		}
	return status;
}

/* All files, or the mistakes of all: then nothing is applied. */
static enum status load(struct apply *apply, struct error *err)
{
	enum status status = STATUS_OK;
	size_t n_files;

	apply->items = calloc(ITEMS_MAX + 1, sizeof(*apply->items));
	if (!apply->items)
		return error_no_memory(err, "the files");
	TRY(list_files(apply, err));
	if (apply->n == 0)
		return usage_error(
			apply->inv, err,
			"%s has no file NAME.policy.hcl, NAME.volume.hcl or NAME.job.hcl (or .json)",
			folder_of(apply->inv));
	TRY(spec_bound(apply->inv, apply->folder, apply->within, err));
	qsort(apply->items, apply->n, sizeof(*apply->items), compare_items);
	n_files = apply->n;
	for (size_t i = 0; i < n_files; i++) {
		struct error one;
		uint32_t members = 0;
		enum status loaded = load_item(apply, &apply->items[i], &members, &one);

		if (loaded == STATUS_OK && members > 0)
			loaded = add_members(apply, i, members, &one);
		status = error_collect(status, loaded, &one, err);
	}
	qsort(apply->items, apply->n, sizeof(*apply->items), compare_items);
	return status == STATUS_OK ? check_once(apply, err) : status;
}

/* --- what the server has --- */

static enum status get_known(struct apply *apply, const struct item *item, ProtobufCMessage **ret,
			     struct error *err)
{
	Holdfast__V1__GetVolumeRequest volume = HOLDFAST__V1__GET_VOLUME_REQUEST__INIT;
	Holdfast__V1__GetJobRequest job = HOLDFAST__V1__GET_JOB_REQUEST__INIT;
	Holdfast__V1__ListPoliciesRequest policies = HOLDFAST__V1__LIST_POLICIES_REQUEST__INIT;
	const struct {
		const ProtobufCServiceDescriptor *service;
		const char *method;
		const ProtobufCMessage *request;
	} calls[KIND_N] = {{&holdfast__v1__operator__descriptor, "ListPolicies", &policies.base},
			   {&holdfast__v1__volumes__descriptor, "Get", &volume.base},
			   {&holdfast__v1__jobs__descriptor, "Get", &job.base}};
	enum status status;

	volume.id = job.id = (char *)(uintptr_t)id_of(item);
	volume.namespace_ = job.namespace_ = (char *)(uintptr_t)namespace_of(item);
	policies.prefix = (char *)(uintptr_t)item->name;
	status = connection_call(apply->connection, calls[item->kind].service, calls[item->kind].method,
				 calls[item->kind].request, CALL_TIMEOUT_US, ret, err);
	return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

/* The object in the answer, or NULL. */
static const ProtobufCMessage *object_of(const struct item *item, const ProtobufCMessage *answer)
{
	const Holdfast__V1__ListPoliciesResponse *policies = (const void *)answer;

	if (!answer)
		return NULL;
	if (item->kind == KIND_VOLUME)
		return &((const Holdfast__V1__GetVolumeResponse *)(const void *)answer)->volume->base;
	if (item->kind == KIND_JOB)
		return &((const Holdfast__V1__GetJobResponse *)(const void *)answer)->job->base;
	for (size_t i = 0; i < policies->n_policies; i++)
		if (str_eq(policies->policies[i]->name, item->name))
			return &policies->policies[i]->base;
	return NULL;
}

/* --- comparison --- */

#define KEY_PLAIN "0123456789_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-./[]"

static void print_value(struct strbuf *out, const json_t *value)
{
	char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;

	strbuf_printf(out, "%s", text ? text : "nothing");
	free(text);
}

static void compare(struct item *item, const char *path, const json_t *known, const json_t *wanted);

/* A key is of the file's author, like a value: in quotes it adds no line. */
static void print_key(struct strbuf *out, const char *key)
{
	json_t *quoted = key[strspn(key, KEY_PLAIN)] != '\0' ? json_string(key) : NULL;

	if (quoted)
		print_value(out, quoted);
	else
		strbuf_puts(out, key);
	json_decref(quoted);
}

static void compare_member(struct item *item, const char *path, const char *name, const json_t *known,
			   const json_t *wanted)
{
	cleanup_strbuf struct strbuf below = STRBUF_INIT(PBJSON_TEXT_MAX);

	strbuf_printf(&below, "%s%s", path, path[0] == '\0' || name[0] == '[' ? "" : ".");
	print_key(&below, name);
	if (below.error == 0)
		compare(item, below.data, known, wanted);
	else
		item->diff.error = below.error;
}

/* A policy or a job gets all of its fields from its file. A volume keeps most that its file lacks; what the
 * file does have is whole, except a source, which gets its defaults from the server. */
static bool is_whole(const struct item *item, const char *path)
{
	return item->kind != KIND_VOLUME || (path[0] != '\0' && !str_starts_with(path, "source"));
}

/* Does a volume lose this field if its file lacks it? As the server merges a registration. */
static bool is_taken_away(const char *field)
{
	const ProtobufCFieldDescriptor *known =
		protobuf_c_message_descriptor_get_field_by_name(&holdfast__v1__volume__descriptor, field);

	return str_eq(field, "on_node_loss") || str_eq(field, "snapshots") ||
	       str_eq(field, "topology_request") || str_eq(field, "requested_capabilities") ||
	       (known && known->id >= VOLUME_PLAIN_FIRST);
}

static void compare_objects(struct item *item, const char *path, const json_t *known, const json_t *wanted)
{
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)(uintptr_t)wanted, key, value)
		compare_member(item, path, key, json_object_get(known, key), value);
	json_object_foreach ((json_t *)(uintptr_t)known, key, value)
		if (!json_object_get(wanted, key) &&
		    (is_whole(item, path) || (path[0] == '\0' && is_taken_away(key))))
			compare_member(item, path, key, value, NULL);
}

/* Adds a line for each field that differs. */
static void compare(struct item *item, const char *path, const json_t *known, const json_t *wanted)
{
	json_t *value;
	size_t i;

	if (json_is_object(wanted) && json_is_object(known)) {
		compare_objects(item, path, known, wanted);
	} else if (json_is_array(wanted) && json_is_array(known) &&
		   json_array_size(wanted) == json_array_size(known)) {
		json_array_foreach (wanted, i, value) {
			char number[32];

			(void)str_format(number, sizeof(number), "[%zu]", i);
			compare_member(item, path, number, json_array_get(known, i), value);
		}
	} else if (!known || !json_equal(known, wanted)) {
		strbuf_printf(&item->diff, "    %s: ", path);
		print_value(&item->diff, known);
		strbuf_printf(&item->diff, " -> ");
		print_value(&item->diff, wanted);
		strbuf_printf(&item->diff, "\n");
	}
}

/* Removes the fields that are the server's, and the secrets of a volume. Its flags may hold a password: reads
 * show only whether there are any, and a diff does not show more. */
static enum status reduce(const struct item *item, json_t *object, struct error *err)
{
	static const char *const of_server[] = {"namespace",	  "create_index",   "modify_index",
						"version",	  "stop",	    "update_status",
						"submit_time_ms", "restart_version"};
	json_t *options = item->kind == KIND_VOLUME ? json_object_get(object, "mount_options") : NULL, *group;
	bool has_flags = json_array_size(json_object_get(options, "mount_flags")) > 0;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(of_server); i++)
		(void)json_object_del(object, of_server[i]);
	json_array_foreach (json_object_get(object, "groups"), i, group)
		(void)json_object_del(group, "restart_version");
	if (item->kind == KIND_VOLUME)
		(void)json_object_del(object, "secrets");
	(void)json_object_del(options, "mount_flags");
	if (has_flags && json_object_set_new(options, "mount_flags", json_string("set")) < 0)
		return error_no_memory(err, "the difference");
	return STATUS_OK;
}

/* The object of the file, with the defaults of the fields that it takes away. @ret owned by the caller */
static enum status encode_wanted(const struct item *item, json_t **ret, struct error *err)
{
	bool is_volume = item->kind == KIND_VOLUME;
	cleanup(json_decrefp) json_t *whole = NULL;
	const char *key;
	json_t *value;

	TRY(pbjson_encode(item->wanted, PBJSON_PROTO_NAMES | (is_volume ? 0 : PBJSON_DEFAULTS), ret, err));
	if (is_volume)
		TRY(pbjson_encode(item->wanted, PBJSON_PROTO_NAMES | PBJSON_DEFAULTS, &whole, err));
	json_object_foreach (whole, key, value)
		if ((json_object_get(*ret, key) ? !str_eq(key, "source") : is_taken_away(key)) &&
		    json_object_set(*ret, key, value) < 0)
			return error_no_memory(err, "the difference");
	return STATUS_OK;
}

static enum status find_diff(struct item *item, const ProtobufCMessage *known_, struct error *err)
{
	cleanup(json_decrefp) json_t *wanted = NULL, *known = NULL;

	TRY(encode_wanted(item, &wanted, err));
	TRY(pbjson_encode(known_, PBJSON_PROTO_NAMES | PBJSON_DEFAULTS, &known, err));
	TRY(reduce(item, wanted, err));
	TRY(reduce(item, known, err));
	compare(item, "", known, wanted);
	item->is_same = item->diff.len == 0;
	return item->diff.error == 0 ? STATUS_OK : error_no_memory(err, "the difference");
}

/* The server compares a job whole, with its own defaults. */
static enum status plan_job(struct apply *apply, struct item *item, struct error *err)
{
	Holdfast__V1__PlanJobRequest request = HOLDFAST__V1__PLAN_JOB_REQUEST__INIT;
	cleanup_message Holdfast__V1__PlanJobResponse *answer = NULL;

	request.job = (Holdfast__V1__Job *)(void *)item->wanted;
	TRY(connection_call(apply->connection, &holdfast__v1__jobs__descriptor, "Plan", &request.base,
			    CALL_TIMEOUT_US, &answer, err));
	if (answer->unchanged)
		strbuf_consume(&item->diff, item->diff.len);
	else if (item->is_known && item->diff.len == 0)
		strbuf_printf(&item->diff, "    no field: the job is stopped, or its update failed\n");
	item->is_same = answer->unchanged;
	return STATUS_OK;
}

static enum status plan(struct apply *apply, struct item *item, struct error *err)
{
	cleanup_message ProtobufCMessage *answer = NULL;
	const ProtobufCMessage *known;

	TRY(get_known(apply, item, &answer, err));
	known = object_of(item, answer);
	item->is_known = known != NULL;
	if (known)
		TRY(find_diff(item, known, err));
	return item->kind == KIND_JOB ? plan_job(apply, item, err) : STATUS_OK;
}

/* --- application --- */

/* Does its provider make the volume? Others are registered. */
static bool is_made(const Holdfast__V1__Volume *volume)
{
	return volume->type == HOLDFAST__V1__VOLUME_TYPE__CSI && volume->external_id[0] == '\0';
}

static enum status put_volume(struct apply *apply, const struct item *item, struct error *err)
{
	Holdfast__V1__RegisterVolumeRequest to_register = HOLDFAST__V1__REGISTER_VOLUME_REQUEST__INIT;
	Holdfast__V1__CreateVolumeRequest to_create = HOLDFAST__V1__CREATE_VOLUME_REQUEST__INIT;
	const Holdfast__V1__Volume *volume = volume_of(item);
	cleanup_message ProtobufCMessage *answer = NULL;
	char doing[2 * NAME_SIZE];

	to_register.volume = to_create.volume = (Holdfast__V1__Volume *)(uintptr_t)volume;
	(void)str_format(doing, sizeof(doing), "creating volume %.128s", volume->id);
	return connection_call_long(apply->connection, apply->inv, &holdfast__v1__volumes__descriptor,
				    is_made(volume) ? "Create" : "Register",
				    is_made(volume) ? &to_create.base : &to_register.base,
				    PROVIDER_TIMEOUT_US, doing, &answer, err);
}

static enum status put(struct apply *apply, const struct item *item, struct error *err)
{
	Holdfast__V1__PutPolicyRequest policy = HOLDFAST__V1__PUT_POLICY_REQUEST__INIT;
	Holdfast__V1__RunJobRequest job = HOLDFAST__V1__RUN_JOB_REQUEST__INIT;
	cleanup_message ProtobufCMessage *answer = NULL;

	if (item->kind == KIND_VOLUME)
		return put_volume(apply, item, err);
	policy.policy = (Holdfast__V1__AccessPolicy *)(void *)item->wanted;
	job.job = (Holdfast__V1__Job *)(void *)item->wanted;
	if (item->kind == KIND_POLICY)
		return connection_call(apply->connection, &holdfast__v1__operator__descriptor, "PutPolicy",
				       &policy.base, CALL_TIMEOUT_US, &answer, err);
	return connection_call(apply->connection, &holdfast__v1__jobs__descriptor, "Run", &job.base,
			       CALL_TIMEOUT_US, &answer, err);
}

static bool is_dry(const struct apply *apply)
{
	return apply->inv->options[OPT_DRY_RUN] || apply->inv->options[OPT_DIFF];
}

static const char *fate_of(const struct apply *apply, const struct item *item)
{
	bool is_registered = item->kind == KIND_VOLUME && !is_made(volume_of(item));

	if (item->err.status != STATUS_OK)
		return "failed";
	if (item->is_same)
		return "unchanged";
	if (is_dry(apply))
		return item->is_known  ? "would be changed"
		       : is_registered ? "would be registered"
				       : "would be created";
	return item->is_known ? "changed" : is_registered ? "registered" : "created";
}

static void show(const struct apply *apply, const struct item *item)
{
	if (apply->inv->options[OPT_JSON])
		return;
	print_line("%s %s%s%s: %s", kinds[item->kind].name, namespace_of(item),
		   item->kind == KIND_POLICY ? "" : "/", id_of(item), fate_of(apply, item));
	if (item->err.status != STATUS_OK) {
		char text[PATH_MAX + ERROR_MSG_MAX];

		(void)str_format(text, sizeof(text), "    %s: %s", item->path, item->err.msg);
		print_text(stdout, text); /* an error may have a line for each field */
	} else if (apply->inv->options[OPT_DIFF] && item->diff.len > 0)
		print_text(stdout, item->diff.data);
	(void)fflush(stdout);
}

static void apply_item(struct apply *apply, struct item *item)
{
	struct error err;

	item->err.status = plan(apply, item, &err);
	/* an unchanged volume is registered again: its secrets may be others */
	if (item->err.status == STATUS_OK && !is_dry(apply) && (!item->is_same || item->kind == KIND_VOLUME))
		item->err.status = put(apply, item, &err);
	if (item->err.status != STATUS_OK)
		item->err = err;
	show(apply, item);
}

static json_t *json_of(const struct apply *apply, const struct item *item)
{
	bool has_failed = item->err.status != STATUS_OK;

	return json_pack("{ss ss ss so* ss ss* so*}", "kind", kinds[item->kind].name, "namespace",
			 namespace_of(item), "id", id_of(item), "file", json_text(item->path), "result",
			 fate_of(apply, item), "diff", item->diff.data, "error",
			 has_failed ? json_text(item->err.msg) : NULL);
}

/* --- what no file describes --- */

/* A job or volume that no file describes. */
struct surplus {
	enum kind kind;
	bool is_deleted;       /* a volume whose data is not kept */
	uint64_t create_index; /* of the volume; 0: its registration was not stored yet */
	char namespace[NAME_SIZE], id[NAME_SIZE];
};

struct surplus_list {
	struct surplus *list; /* owned array */
	size_t n;
};

static void surplus_release(struct surplus_list *surplus)
{
	free(surplus->list);
}

static bool is_described(const struct apply *apply, enum kind kind, const char *namespace, const char *id)
{
	for (size_t i = 0; i < apply->n; i++)
		if (apply->items[i].kind == kind && str_eq(namespace_of(&apply->items[i]), namespace) &&
		    str_eq(id_of(&apply->items[i]), id))
			return true;
	return false;
}

static enum status add_surplus(const struct apply *apply, struct surplus_list *ret, const struct surplus *one,
			       const char *namespace, const char *id, struct error *err)
{
	struct surplus *list;

	if (is_described(apply, one->kind, namespace, id))
		return STATUS_OK;
	list = realloc(ret->list, (ret->n + 1) * sizeof(*list));
	if (!list)
		return error_no_memory(err, "the surplus");
	ret->list = list;
	list[ret->n] = *one;
	(void)str_copy(list[ret->n].namespace, NAME_SIZE, namespace);
	(void)str_copy(list[ret->n++].id, NAME_SIZE, id);
	return STATUS_OK;
}

static enum status find_jobs(struct apply *apply, const char *namespace, struct surplus_list *ret,
			     struct error *err)
{
	Holdfast__V1__ListJobsRequest request = HOLDFAST__V1__LIST_JOBS_REQUEST__INIT;
	cleanup_message Holdfast__V1__ListJobsResponse *answer = NULL;

	request.namespace_ = (char *)(uintptr_t) namespace;
	TRY(pages_fetch(apply->connection, &holdfast__v1__jobs__descriptor, "List", &request.base, 0, &answer,
			err));
	for (size_t i = 0; i < answer->n_jobs; i++)
		if (!answer->jobs[i]->stop)
			TRY(add_surplus(apply, ret, &(struct surplus){.kind = KIND_JOB}, namespace,
					answer->jobs[i]->id, err));
	return STATUS_OK;
}

/* A native volume has no provider: its storage stays in any case. */
static bool asks_for_deletion(const Holdfast__V1__Volume *volume)
{
	return volume->reclaim == HOLDFAST__V1__RECLAIM__RECLAIM_DELETE &&
	       volume->type == HOLDFAST__V1__VOLUME_TYPE__CSI;
}

static enum status find_volumes(struct apply *apply, const char *namespace, struct surplus_list *ret,
				struct error *err)
{
	Holdfast__V1__ListVolumesRequest request = HOLDFAST__V1__LIST_VOLUMES_REQUEST__INIT;
	cleanup_message Holdfast__V1__ListVolumesResponse *answer = NULL;

	request.namespace_ = (char *)(uintptr_t) namespace;
	TRY(pages_fetch(apply->connection, &holdfast__v1__volumes__descriptor, "List", &request.base, 0,
			&answer, err));
	for (size_t i = 0; i < answer->n_volumes; i++) {
		const Holdfast__V1__Volume *volume = answer->volumes[i];
		const struct surplus one = {.kind = KIND_VOLUME,
					    .is_deleted = asks_for_deletion(volume),
					    .create_index = volume->create_index};

		TRY(add_surplus(apply, ret, &one, namespace, volume->id, err));
	}
	return STATUS_OK;
}

/* In the namespaces that the files are in. */
static enum status find_surplus(struct apply *apply, struct surplus_list *ret, struct error *err)
{
	for (size_t i = 0; i < apply->n; i++) {
		const char *namespace = namespace_of(&apply->items[i]);
		size_t k = 0;

		while (k < i && !str_eq(namespace_of(&apply->items[k]), namespace))
			k++;
		if (k < i || apply->items[i].kind == KIND_POLICY)
			continue;
		TRY(find_jobs(apply, namespace, ret, err));
		TRY(find_volumes(apply, namespace, ret, err));
	}
	return STATUS_OK;
}

/* The person may take long to answer: the server refuses a volume that has changed since. */
static enum status remove_one(struct apply *apply, const struct surplus *one, struct error *err)
{
	Holdfast__V1__StopJobRequest job = HOLDFAST__V1__STOP_JOB_REQUEST__INIT;
	Holdfast__V1__DeregisterVolumeRequest volume = HOLDFAST__V1__DEREGISTER_VOLUME_REQUEST__INIT;
	Holdfast__V1__DeleteVolumeRequest to_delete = HOLDFAST__V1__DELETE_VOLUME_REQUEST__INIT;
	cleanup_message ProtobufCMessage *answer = NULL;
	char doing[2 * NAME_SIZE];

	job.id = volume.id = to_delete.id = (char *)(uintptr_t)one->id;
	job.namespace_ = volume.namespace_ = to_delete.namespace_ = (char *)(uintptr_t)one->namespace;
	volume.if_create_index = to_delete.if_create_index = one->create_index;
	to_delete.if_reclaimed = true;
	(void)str_format(doing, sizeof(doing), "deleting volume %.128s", one->id);
	if (one->kind == KIND_JOB)
		return connection_call(apply->connection, &holdfast__v1__jobs__descriptor, "Stop", &job.base,
				       CALL_TIMEOUT_US, &answer, err);
	if (one->create_index == 0)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "volume %s was being registered when it was read; repeat the command",
				 one->id);
	if (one->is_deleted)
		return connection_call_long(apply->connection, apply->inv, &holdfast__v1__volumes__descriptor,
					    "Delete", &to_delete.base, PROVIDER_TIMEOUT_US, doing, &answer,
					    err);
	return connection_call(apply->connection, &holdfast__v1__volumes__descriptor, "Deregister",
			       &volume.base, CALL_TIMEOUT_US, &answer, err);
}

static enum status ask_person(struct apply *apply, const struct surplus_list *surplus, struct error *err)
{
	cleanup_strbuf struct strbuf question = STRBUF_INIT(PBJSON_TEXT_MAX);

	for (size_t i = 0; i < surplus->n; i++)
		strbuf_printf(&question, "%s %s/%s%s\n", kinds[surplus->list[i].kind].name,
			      surplus->list[i].namespace, surplus->list[i].id,
			      surplus->list[i].is_deleted ? ": its data is deleted (reclaim)" : "");
	strbuf_printf(&question,
		      "No file in %s describes these. Stop the jobs and deregister the volumes? "
		      "Data stays unless it is written above.",
		      apply->folder);
	return value_confirm(apply->inv, question.error == 0 ? question.data : NULL, err);
}

/* @n_failed counts what could not be removed. */
static enum status prune(struct apply *apply, json_t *all, size_t *n_failed, struct error *err)
{
	cleanup(surplus_release) struct surplus_list surplus = {.n = 0};

	TRY(find_surplus(apply, &surplus, err));
	if (surplus.n > 0 && !is_dry(apply))
		TRY(ask_person(apply, &surplus, err));
	for (size_t i = 0; i < surplus.n; i++) {
		const struct surplus *one = &surplus.list[i];
		const char *done = one->kind == KIND_JOB ? "stopped"
				   : one->is_deleted	 ? "deleted"
							 : "deregistered";
		struct error failed = {.status = STATUS_OK};
		char result[64];

		if (!is_dry(apply))
			failed.status = remove_one(apply, one, &failed);
		(void)str_format(result, sizeof(result), "%s%s", is_dry(apply) ? "would be " : "", done);
		*n_failed += failed.status != STATUS_OK;
		if (!apply->inv->options[OPT_JSON])
			print_line("%s %s/%s: %s", kinds[one->kind].name, one->namespace, one->id,
				   failed.status == STATUS_OK ? result : failed.msg);
		(void)json_array_append_new(
			all, json_pack("{ss ss ss ss so*}", "kind", kinds[one->kind].name, "namespace",
				       one->namespace, "id", one->id, "result",
				       failed.status == STATUS_OK ? result : "failed", "error",
				       failed.status == STATUS_OK ? NULL : json_text(failed.msg)));
	}
	return STATUS_OK;
}

/* --- the command --- */

static enum status open_folder(struct apply *apply, struct error *err)
{
	const char *given = folder_of(apply->inv);
	size_t n = strlen(given);

	if (str_format(apply->folder, sizeof(apply->folder), "%s%s", given,
		       n > 0 && given[n - 1] == '/' ? "" : "/") < 0)
		return usage_error(apply->inv, err, "the name of the folder is too long");
	return STATUS_OK;
}

static enum status cmd_apply(struct invocation *inv, struct error *err)
{
	cleanup(apply_release) struct apply apply = {.inv = inv};
	cleanup(json_decrefp) json_t *all = json_array();
	size_t n_failed = 0;

	if (!all)
		return error_no_memory(err, "the answer");
	if ((inv->n_args > 0) == (inv->options[OPT_FILENAME] != NULL))
		return usage_error(inv, err, "give one folder: holdfast apply FOLDER, or -f FOLDER");
	TRY(open_folder(&apply, err));
	TRY(load(&apply, err));
	TRY(connect_server(inv, &apply.connection, err));
	for (size_t i = 0; i < apply.n; i++) {
		apply_item(&apply, &apply.items[i]);
		n_failed += apply.items[i].err.status != STATUS_OK;
		(void)json_array_append_new(all, json_of(&apply, &apply.items[i]));
	}
	if (inv->options[OPT_PRUNE] && n_failed == 0)
		TRY(prune(&apply, all, &n_failed, err));
	if (inv->options[OPT_JSON])
		TRY(print_json(TAKE_PTR(all), err));
	if (n_failed == 0)
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "%zu of the objects failed; the same command does the rest when the causes are gone",
			 n_failed);
}

static const struct command commands[] = {
	{.path = "apply",
	 .args = "[FOLDER]",
	 .help = "Make what the files of a folder describe: policies, volumes and jobs",
	 .example = "cluster",
	 .max_args = 1,
	 .arg_kinds = {WORD_FILE},
	 .options = OPTION_BIT(OPT_FILENAME) | OPTION_BIT(OPT_DIFF) | OPTION_BIT(OPT_OUTSIDE) |
		    OPTION_BIT(OPT_PRUNE) | OPTION_BIT(OPT_TIMEOUT) | FORCED,
	 .run = cmd_apply},
};

const struct command_table apply_commands = {commands, ARRAY_SIZE(commands)};
