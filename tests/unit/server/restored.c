/* SPDX-License-Identifier: Apache-2.0 */
#include "restored.h"

#include "unit.h"

#include "base/clock.h"
#include "base/fd.h"
#include "model/pb.h"
#include "recovery/history.h"
#include "recovery/new_epoch.h"
#include "state/keys.h"
#include "store/mark.h"

#include <limits.h>

enum { DB_SIZE_MAX = 64 << 20 };

static void path_of(const struct fixture *f, char ret[static PATH_MAX])
{
	(void)str_format(ret, PATH_MAX, "%s/holdfast.db", f->dir);
}

void take_backup(struct fixture *f, struct backup *backup)
{
	char path[PATH_MAX];

	cluster_stop(f);
	path_of(f, path);
	free(backup->bytes);
	assert_int_equal(file_read(path, DB_SIZE_MAX, &backup->bytes, &backup->n), 0);
	cluster_start(f);
}

/* Does what an operator's restore does to the older store. */
static void begin_epoch(const char *path, uint64_t number, struct new_epoch wanted)
{
	struct new_epoch_result result;
	struct error err;

	wanted.path = path;
	wanted.cluster = "c1";
	wanted.known_epoch = number - 1;
	wanted.now_ms = clock_realtime_ms();
	wanted.restored_from = "a backup";
	assert_ok(new_epoch_begin(&wanted, &result, &err));
	assert_int_equal(result.epoch, number);
}

static void put_back(struct fixture *f, struct backup *backup)
{
	char path[PATH_MAX];

	path_of(f, path);
	assert_int_equal(file_write_atomic(path, 0600, backup->bytes, backup->n), 0);
	free(backup->bytes);
	*backup = (struct backup){0};
}

void restore(struct fixture *f, struct backup *backup, uint64_t epoch)
{
	restore_missing(f, backup, epoch, 0);
}

static void restore_as(struct fixture *f, struct backup *backup, uint64_t epoch, struct new_epoch wanted)
{
	char path[PATH_MAX];

	cluster_stop(f);
	path_of(f, path);
	put_back(f, backup);
	begin_epoch(path, epoch, wanted);
	cluster_start(f);
}

void restore_missing(struct fixture *f, struct backup *backup, uint64_t epoch, uint64_t missing)
{
	restore_as(f, backup, epoch, (struct new_epoch){.missing_nodes = missing});
}

void restore_knowing(struct fixture *f, struct backup *backup, uint64_t epoch)
{
	const Holdfast__V1__Schema *schema = records_get(&f->server->state.records, KEY_SCHEMA);
	struct new_epoch wanted = {.known_index = kv_revision(f->server->kv),
				   .known = {.n = history_nodes(f->server)}};

	known_nodes_add_store(&wanted.known, schema->store_id);
	restore_as(f, backup, epoch, wanted);
}

/* A snapshot of the machine takes the mark along. */
static void forget_mark(struct fixture *f)
{
	struct mark_file *file = NULL;
	char path[PATH_MAX];

	(void)str_format(path, sizeof(path), "%s/holdfast.mark", f->dir);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mark_open(path, &(struct mark){.revision = 0}, &file, NULL), STATUS_OK);
	mark_close(file);
}

void go_back(struct fixture *f, struct backup *backup)
{
	cluster_stop(f);
	put_back(f, backup);
	forget_mark(f);
	cluster_start(f);
}

struct ticket ticket_of(const struct fixture *f, const struct claim *claim)
{
	struct volume volume = {.type = str_eq(claim->plugin_id, PLUGIN_NATIVE) ? VOLUME_NATIVE : VOLUME_CSI,
				.generation = claim->generation};
	struct ticket ticket;

	if (volume.type == VOLUME_NATIVE) /* that of register_volume() */
		volume.source = (struct source){.class = SOURCE_BLOCK, .by_id = "wwn-0x1"};

	memcpy(volume.id, claim->volume_id, sizeof(volume.id));
	memcpy(volume.namespace, claim->namespace, sizeof(volume.namespace));
	memcpy(volume.plugin_id, claim->plugin_id, sizeof(volume.plugin_id));
	memcpy(volume.external_id, claim->external_id, sizeof(volume.external_id));
	memcpy(volume.context_digest, claim->context_digest, sizeof(volume.context_digest));
	memcpy(volume.profile, claim->profile, sizeof(volume.profile));
	assert_int_equal(
		ticket_issue(f->server->issuer, claim, &volume, clock_realtime_ms() + 120000, &ticket, NULL),
		STATUS_OK);
	return ticket;
}

void report_with(struct fake_node *node, uint64_t epoch, const struct alloc *alloc, const struct claim *claim,
		 const struct ticket *ticket, bool more)
{
	Holdfast__V1__Allocation *allocs[1] = {alloc ? alloc_to_pb(alloc) : NULL};
	Holdfast__V1__Claim *claims[1] = {claim ? claim_to_pb(claim) : NULL};
	ProtobufCBinaryData tickets[1] = {
		{.len = ticket ? sizeof(*ticket) : 0, .data = (uint8_t *)(uintptr_t)ticket}};
	Holdfast__V1__NodeReport pb =
		V1(node_report, .epoch = epoch, .allocations = allocs, .n_allocations = alloc != NULL,
		   .claims = claims, .n_claims = claim != NULL, .tickets = tickets,
		   .n_tickets = claim != NULL, .more = more);

	fake_node_send_report(node, &pb);
	if (alloc)
		holdfast__v1__allocation__free_unpacked(allocs[0], NULL);
	if (claim)
		holdfast__v1__claim__free_unpacked(claims[0], NULL);
}

void report(struct fixture *f, struct fake_node *node, uint64_t epoch, const struct alloc *alloc,
	    const struct claim *claim, bool more)
{
	struct ticket ticket = claim ? ticket_of(f, claim) : (struct ticket){0};

	report_with(node, epoch, alloc, claim, claim ? &ticket : NULL, more);
}

struct alloc alloc_of(struct fixture *f, const char *id)
{
	enum { ALIVE = 8 };
	static struct volume_request volumes[ALIVE][ALLOC_VOLUMES_MAX];
	static unsigned int next;
	struct alloc alloc = state_alloc(&f->server->state, id)->alloc;
	struct volume_request *place = volumes[next++ % ALIVE];

	memcpy(place, alloc.volumes, alloc.n_volumes * sizeof(*place));
	alloc.volumes = place;
	alloc.published = NULL;
	alloc.n_published = 0;
	alloc.client_description = NULL;
	alloc.events = NULL;
	return alloc;
}

bool has_reported(struct fixture *f, const char *node)
{
	return !state_node(&f->server->state, node)->is_unreported;
}

enum status claim_for(struct fake_node *node, const char *alloc, struct claim *ret, struct error *err)
{
	Holdfast__V1__ClaimVolumeResponse *response = NULL;

	TRY(fake_node_claim(node, "db", alloc, &response, err));
	assert_int_equal(claim_from_pb(response->claim, ret, NULL), STATUS_OK);
	holdfast__v1__claim_volume_response__free_unpacked(response, NULL);
	return STATUS_OK;
}

void connect_node(struct fake_node *node, const char *id)
{
	fake_node_connect(node, id, BOOT_1, NULL, 0);
	assert_true(node->welcomed);
}

void forget_what_n1_has(struct fixture *f, struct alloc *ret_alloc, struct claim *ret_claim)
{
	struct backup backup = {0};

	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	take_backup(f, &backup);
	take_volume(f);
	*ret_alloc = alloc_of(f, ALLOC_1);
	*ret_claim = claim_of(f, ALLOC_1);
	restore(f, &backup, 1);
	assert_null(state_alloc(&f->server->state, ALLOC_1));
}

void forget_that_n1_has_it(struct fixture *f, struct alloc *ret_alloc, struct claim *ret_claim)
{
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	forget_what_n1_has(f, ret_alloc, ret_claim);
}

void report_that_n1_has_it(struct fixture *f, const struct alloc *alloc, const struct claim *claim)
{
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	report(f, &f->n1, 1, alloc, claim, false);
	UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
}

size_t count_records(struct fixture *f, const char *what, const char *words)
{
	Holdfast__V1__ListAuditRequest request = HOLDFAST__V1__LIST_AUDIT_REQUEST__INIT;
	cleanup_pb Holdfast__V1__ListAuditResponse *response = NULL;
	size_t n = 0;

	UNTIL(f, kv_stats(f->server->kv).pending == 0);
	assert_ok(call(&f->operator, & holdfast__v1__operator__descriptor, "ListAudit", &request.base,
		       (ProtobufCMessage **)&response, NULL));
	for (size_t i = 0; i < response->n_records; i++)
		n += str_eq(response->records[i]->what, what) && strstr(response->records[i]->why, words);
	return n;
}
