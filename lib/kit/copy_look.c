/* SPDX-License-Identifier: Apache-2.0 */
#include "kit/copy_look.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "kit/meta_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/types.pb-c.h>
#include <sys/stat.h>

static void parse_schema(const struct kv_item *item, struct copy_facts *facts)
{
	Holdfast__V1__Schema *schema = holdfast__v1__schema__unpack(NULL, item->len, item->value);

	if (!schema)
		return;
	facts->schema = schema->version;
	str_copy_text(facts->cluster, sizeof(facts->cluster), schema->cluster);
	str_copy_text(facts->store_id, sizeof(facts->store_id), schema->store_id);
	holdfast__v1__schema__free_unpacked(schema, NULL);
}

static void parse_epoch(const struct kv_item *item, struct copy_facts *facts)
{
	Holdfast__V1__Epoch *epoch = holdfast__v1__epoch__unpack(NULL, item->len, item->value);

	facts->epoch = epoch ? epoch->number : 0;
	holdfast__v1__epoch__free_unpacked(epoch, NULL);
}

static void parse_node_count(const struct kv_item *item, struct copy_facts *facts)
{
	Holdfast__V1__NodeCount *count = holdfast__v1__node_count__unpack(NULL, item->len, item->value);

	facts->missing = count ? count->missing : 0;
	holdfast__v1__node_count__free_unpacked(count, NULL);
}

static void parse_audit(const struct kv_item *item, struct copy_facts *facts)
{
	Holdfast__V1__AuditRecord *record = holdfast__v1__audit_record__unpack(NULL, item->len, item->value);

	if (record && record->time_ms > facts->newest_ms)
		facts->newest_ms = record->time_ms;
	holdfast__v1__audit_record__free_unpacked(record, NULL);
}

static bool on_item(const struct kv_item *item, void *userdata)
{
	struct copy_facts *facts = userdata;

	if (str_eq(item->key, KEY_SCHEMA))
		parse_schema(item, facts);
	else if (str_eq(item->key, KEY_EPOCH))
		parse_epoch(item, facts);
	else if (str_eq(item->key, KEY_NODE_COUNT))
		parse_node_count(item, facts);
	else if (str_starts_with(item->key, PREFIX_AUDIT))
		parse_audit(item, facts);
	facts->nodes += str_starts_with(item->key, PREFIX_NODE);
	facts->volumes += str_starts_with(item->key, PREFIX_VOLUME);
	facts->claims += str_starts_with(item->key, PREFIX_CLAIM);
	return true;
}

enum status copy_open(const char *path, int *ret_fd, struct error *err)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* of a pipe it would wait */
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, status_from_errno(errno), errno, "open %s", path);
	if (!S_ISREG(st.st_mode))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s is no regular file: it is no backup",
				 path);
	if (st.st_size == 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s is empty: it is no backup", path);
	*ret_fd = TAKE_FD(fd);
	return STATUS_OK;
}

enum status copy_look(const struct kv_copy *copy, struct copy_facts *ret, struct error *err)
{
	struct copy_facts facts = {.index = 0};
	enum status status = kv_walk_copy(copy, on_item, &facts, &facts.index, err);

	if (status == STATUS_OK)
		*ret = facts;
	return status;
}
