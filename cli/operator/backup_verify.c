/* SPDX-License-Identifier: Apache-2.0 */
/* What a backup or a kit holds, and whether it is whole; without a server. */

#include "base/str.h"
#include "command/commands.h"
#include "kit/copy_look.h"
#include "kit/kit.h"
#include "show/output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { NUMBER_SIZE = 24 };

static enum status read_kit(struct invocation *inv, int fd, struct kit *ret, struct error *err)
{
	char passphrase[KIT_PASSPHRASE_SIZE] = "";
	struct kit_key key = {.path = inv->options[OPT_KEY_FILE]};
	enum status status = STATUS_OK;

	if (!inv->options[OPT_PASSPHRASE_FILE] == !key.path)
		return usage_error(inv, err,
				   "%s is a kit: what opens it is needed, --passphrase-file or --key-file",
				   inv->args[0]);
	if (!key.path) {
		status = kit_passphrase_read(inv->options[OPT_PASSPHRASE_FILE], passphrase, err);
		key.passphrase = passphrase;
	}
	if (status == STATUS_OK)
		status = kit_read(fd, inv->args[0], &key, ret, err);
	explicit_bzero(passphrase, sizeof(passphrase));
	return status;
}

static enum status print_facts_json(const struct kit *kit, const struct copy_facts *facts, struct error *err)
{
	json_t *files = json_array();

	for (size_t i = 0; i < kit->n; i++)
		(void)json_array_append_new(files, json_string(kit->files[i].name));
	return print_json(json_pack("{sb ss ss sI sI sI sI sI sI sI sI so}", "kit", kit->n > 0, "cluster",
				    facts->cluster, "store_id", facts->store_id, "schema",
				    (json_int_t)facts->schema, "epoch", (json_int_t)facts->epoch, "index",
				    (json_int_t)facts->index, "last_write_ms", (json_int_t)facts->newest_ms,
				    "nodes", (json_int_t)facts->nodes, "nodes_missing",
				    (json_int_t)facts->missing, "volumes", (json_int_t)facts->volumes,
				    "claims", (json_int_t)facts->claims, "files", files),
			  err);
}

static void print_number(const char *name, uint64_t number)
{
	char text[NUMBER_SIZE];

	(void)str_format(text, sizeof(text), "%" PRIu64, number);
	print_field(name, text);
}

static void print_facts(const struct kit *kit, const struct copy_facts *facts)
{
	char when[CLOCK_TEXT_SIZE];

	print_field("kind", kit->n > 0 ? "kit: the store and the files below" : "backup: the store alone");
	print_field("cluster", facts->cluster);
	print_field("store", facts->store_id);
	print_number("schema", facts->schema);
	print_number("epoch", facts->epoch);
	print_number("index", facts->index);
	print_field("last write", facts->newest_ms > 0 ? clock_format(facts->newest_ms, when) : "");
	print_number("nodes", facts->nodes);
	if (facts->missing > 0)
		print_number("nodes missing", facts->missing);
	print_number("volumes", facts->volumes);
	print_number("claims", facts->claims);
	for (size_t i = 0; i < kit->n; i++)
		if (!str_eq(kit->files[i].name, KIT_STORE))
			print_field("file", kit->files[i].name);
	print_line("every record is what was written");
}

enum status cmd_operator_backup_verify(struct invocation *inv, struct error *err)
{
	cleanup(kit_release) struct kit kit = {.n = 0};
	cleanup_close int fd = open(inv->args[0], O_RDONLY | O_CLOEXEC);
	struct kv_copy copy = {.path = inv->args[0]};
	const struct kit_file *store;
	struct copy_facts facts;
	enum status status = STATUS_OK;

	if (fd < 0)
		return error_set(err, status_from_errno(errno), errno, "open %s", inv->args[0]);
	if (kit_is_one(fd))
		status = read_kit(inv, fd, &kit, err);
	store = kit_find(&kit, KIT_STORE);
	if (store) {
		copy.image = store->data;
		copy.len = store->len;
	}
	if (status == STATUS_OK)
		status = copy_look(&copy, &facts, err);
	if (status != STATUS_OK)
		return status;
	if (inv->options[OPT_JSON])
		return print_facts_json(&kit, &facts, err);
	print_facts(&kit, &facts);
	return STATUS_OK;
}
