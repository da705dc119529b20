/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/allocs.h"

#include "alloc/adopt.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "base/tree.h"
#include "kernel/mount_table.h"
#include "log/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

struct alloc_entry {
	RB_ENTRY(alloc_entry) entry;
	char id[UUID_TEXT_SIZE];
	struct alloc_runner *runner;
};

RB_HEAD(alloc_tree, alloc_entry);

struct release_entry {
	LIST_ENTRY(release_entry) entry;
	struct release *release;
	struct release_note *note; /* in the list of them */
};

struct allocs {
	const struct runner_env *env; /* borrowed */
	struct alloc_tree tree;
	size_t n;
	LIST_HEAD(, release_entry) releases;
	size_t n_releases;
	LIST_HEAD(, release_note) notes; /* of releases, and of those that an earlier run began */
	bool is_adopted;
	bool is_draining;
};

static int compare(const struct alloc_entry *a, const struct alloc_entry *b)
{
	return strcmp(a->id, b->id);
}

TREE_GENERATE(alloc_tree, alloc_entry, entry, compare)

static struct alloc_entry *find(const struct allocs *allocs, const char *id)
{
	struct alloc_tree root = allocs->tree; /* a lookup changes nothing, the macro does not know */
	struct alloc_entry key = {0};

	if (str_copy(key.id, sizeof(key.id), id) < 0)
		return NULL;
	return RB_FIND(alloc_tree, &root, &key);
}

/* An allocation is its namespace and its id: NULL for one of another namespace. */
static struct alloc_entry *find_of(const struct allocs *allocs, const char *namespace, const char *id)
{
	struct alloc_entry *entry = find(allocs, id);

	return entry && str_eq(alloc_runner_record(entry->runner)->alloc.namespace, namespace) ? entry : NULL;
}

/* @record is taken over in any case. */
static enum status add(struct allocs *allocs, struct alloc_record *record, struct alloc_runner **ret,
		       struct error *err)
{
	cleanup(alloc_record_freep) struct alloc_record *owned = record;
	struct alloc_entry *entry;
	enum status status;

	if (allocs->n >= ALLOCS_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "this node has %d allocations already, the most an agent takes", ALLOCS_MAX);
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot take allocation %s",
				 record->alloc.id);
	memcpy(entry->id, record->alloc.id, sizeof(entry->id));
	status = alloc_runner_new(allocs->env, record, &entry->runner, err);
	if (status != STATUS_OK) {
		free(entry);
		return status;
	}
	(void)TAKE_PTR(owned);
	RB_INSERT(alloc_tree, &allocs->tree, entry);
	allocs->n++;
	*ret = entry->runner;
	return STATUS_OK;
}

static enum status on_alloc(struct alloc_record *record, void *userdata, struct error *err)
{
	struct alloc_runner *runner;

	return add(userdata, record, &runner, err);
}

static enum status on_receipt(const struct receipt *receipt, void *userdata, struct error *err)
{
	struct allocs *allocs = userdata;

	return receipts_add(allocs->env->receipts, receipt, err);
}

static void on_forgotten(const struct error *err, void *userdata)
{
	struct allocs *allocs = userdata;

	if (err)
		allocs->env->on_broken(err, allocs->env->userdata);
}

/* The mounts of another boot are gone. */
static enum status on_note(const struct release_note *note, void *userdata, struct error *err)
{
	const struct journal_write forget = {.forget_note = note->claim_id};
	struct allocs *allocs = userdata;
	struct release_note *kept;

	if (!str_eq(note->boot_id, allocs->env->boot_id))
		return journal_write(allocs->env->journal, &forget, on_forgotten, allocs, err);
	kept = calloc(1, sizeof(*kept));
	if (!kept)
		return error_no_memory(err, "the releases");
	*kept = *note;
	LIST_INSERT_HEAD(&allocs->notes, kept, entry);
	return STATUS_OK;
}

enum status allocs_load(struct allocs *allocs, struct error *err)
{
	static const struct journal_reader reader = {
		.on_alloc = on_alloc,
		.on_receipt = on_receipt,
		.on_note = on_note,
	};

	return journal_read(allocs->env->journal, &reader, allocs, err);
}

/* Registers the volumes that plugins may hold since before the restart and must release. */
static void note_plugins(const struct runner_env *env, const struct alloc_record *record)
{
	if (!str_eq(record->boot_id, env->boot_id))
		return;
	for (uint32_t i = 0; i < record->alloc.n_volumes; i++) {
		const struct volume_record *volume = &record->volumes[i];

		if (volume->target.type == VOLUME_CSI && volume_record_is_live(volume))
			volume_manager_note_plugin(env->volumes, volume->target.wire_volume);
		if (volume->target.type == VOLUME_CSI && volume->state == VOLUME_PUBLISHED)
			volume_manager_note_published(env->volumes, volume->target.wire_volume,
						      volume->target.is_host_device);
	}
}

static bool has_device(const struct alloc_record *record)
{
	for (uint32_t i = 0; i < record->alloc.n_volumes; i++) {
		if (volume_target_is_device(&record->volumes[i].target))
			return true;
	}
	return false;
}

/* Reads the whole mount table, but only if an allocation has a device to find in it. */
static struct mount_table *read_table(const struct allocs *allocs)
{
	struct alloc_tree root = allocs->tree;
	struct mount_table *table = NULL;
	struct alloc_entry *entry;
	struct error err;

	RB_FOREACH (entry, alloc_tree, &root) {
		if (!has_device(alloc_runner_record(entry->runner)))
			continue;
		if (mount_table_read(&table, &err) != STATUS_OK)
			log_ctx(LOG_WARNING, &(struct log_ctx){.op = "adopt", .err = &err},
				"devices of csi volumes are taken as journalled");
		break;
	}
	return table;
}

static void remount(struct alloc_runner *runner, const struct mount_snapshot *observed,
		    const struct error *why)
{
	const struct alloc_record *record = alloc_runner_record(runner);

	log_ctx(LOG_WARNING, &(struct log_ctx){.alloc = record->alloc.id, .op = "adopt", .err = why},
		"the missing mounts are made again under their claims");
	for (uint32_t i = 0; i < record->alloc.n_volumes; i++) {
		if (adopt_is_missing(record, i, observed))
			alloc_runner_unmounted(runner, i);
	}
}

static void adopt(struct alloc_runner *runner, const struct mount_snapshot *observed,
		  const struct mount_table *table, const char *boot_id)
{
	const struct alloc_record *record = alloc_runner_record(runner);
	const struct log_ctx ctx = {.alloc = record->alloc.id, .op = "adopt"};
	struct error why;

	switch (adopt_decide(record, observed, table, boot_id, &why)) {
	case ADOPT_KEEP:
		log_ctx(LOG_INFO, &ctx, "adopted with %u volumes", record->alloc.n_volumes);
		break;
	case ADOPT_CONTINUE:
		log_ctx(LOG_INFO, &ctx, "continues from phase %s", alloc_phase_name(record->phase));
		break;
	case ADOPT_REMOUNT:
		remount(runner, observed, &why);
		break;
	case ADOPT_FAIL:
		alloc_runner_fail(runner, &why);
		break;
	case ADOPT_REBOOTED:
		alloc_runner_rebooted(runner);
		break;
	case ADOPT_NOTHING:
	case ADOPT_ACTION_N:
		break;
	}
	alloc_runner_start(runner);
}

void allocs_adopt(struct allocs *allocs, const struct mount_snapshot *observed)
{
	cleanup(mount_table_freep) struct mount_table *table = read_table(allocs);
	struct release_entry *release, *next;
	struct alloc_entry *entry;

	allocs->is_adopted = true;
	/* all of them before any begins: what one undoes another may still use */
	RB_FOREACH (entry, alloc_tree, &allocs->tree)
		note_plugins(allocs->env, alloc_runner_record(entry->runner));
	RB_FOREACH (entry, alloc_tree, &allocs->tree)
		adopt(entry->runner, observed, table, allocs->env->boot_id);
	for (release = LIST_FIRST(&allocs->releases); release; release = next) {
		next = LIST_NEXT(release, entry);
		release_start(release->release);
	}
}

void allocs_expect_plugins(struct allocs *allocs)
{
	struct alloc_entry *entry;

	RB_FOREACH (entry, alloc_tree, &allocs->tree)
		alloc_runner_expect(entry->runner);
}

void allocs_plugin_ready(struct allocs *allocs, const char *alloc_id, const char *plugin_id,
			 const struct error *err)
{
	struct alloc_entry *entry = find(allocs, alloc_id);

	if (entry)
		alloc_runner_plugin_ready(entry->runner, plugin_id, err);
}

bool allocs_is_adopted(const struct allocs *allocs)
{
	return allocs->is_adopted;
}

enum status allocs_run(struct allocs *allocs, const struct alloc *alloc, struct error *err)
{
	struct alloc_entry *known = find(allocs, alloc->id);
	struct alloc_record *record;
	struct alloc_runner *runner;

	if (known && !find_of(allocs, alloc->namespace, alloc->id))
		return error_set(
			err, STATUS_ALREADY_EXISTS, 0,
			"this node has another allocation of this id, of another namespace. Next: run "
			"it without an id, and a new one is made");
	if (known) {
		allocs->env->on_status(&alloc_runner_record(known->runner)->alloc, allocs->env->userdata);
		return STATUS_OK;
	}
	if (allocs->is_draining)
		return error_set(
			err, STATUS_UNAVAILABLE, 0,
			"node is shutting down: it takes no new allocation (if it stays up after all, "
			"run there: holdfast agent drain --cancel)");
	TRY(journal_disk_check(allocs->env->disk, err));
	TRY(alloc_record_new(alloc, allocs->env->boot_id, &record, err));
	TRY(add(allocs, record, &runner, err));
	alloc_runner_save(runner);
	if (allocs->is_adopted)
		alloc_runner_start(runner);
	return STATUS_OK;
}

bool allocs_stop(struct allocs *allocs, const char *namespace, const char *id)
{
	struct alloc_entry *entry = find_of(allocs, namespace, id);

	if (!entry)
		return false;
	if (alloc_runner_is_over(entry->runner))
		allocs->env->on_status(&alloc_runner_record(entry->runner)->alloc, allocs->env->userdata);
	else
		alloc_runner_stop(entry->runner);
	return true;
}

void allocs_set_draining(struct allocs *allocs, bool is_draining)
{
	allocs->is_draining = is_draining;
}

void allocs_shut_down(struct allocs *allocs, const char *id)
{
	struct alloc_entry *entry = find(allocs, id);

	if (entry)
		alloc_runner_shut_down(entry->runner);
}

static void drop(struct allocs *allocs, struct alloc_entry *entry)
{
	RB_REMOVE(alloc_tree, &allocs->tree, entry);
	allocs->n--;
	alloc_runner_free(entry->runner);
	free(entry);
}

void allocs_forget(struct allocs *allocs, const char *namespace, const char *id)
{
	const struct journal_write write = {.forget_alloc = id};
	struct alloc_entry *entry = find_of(allocs, namespace, id);
	struct error err;

	if (!entry)
		return;
	if (!alloc_runner_is_over(entry->runner)) {
		log_ctx(LOG_WARNING, &(struct log_ctx){.alloc = id, .op = "forget"},
			"the server forgets an allocation that has not ended here, ignoring");
		return;
	}
	if (journal_write(allocs->env->journal, &write, on_forgotten, allocs, &err) != STATUS_OK) {
		allocs->env->on_broken(&err, allocs->env->userdata);
		return;
	}
	drop(allocs, entry);
}

static void drop_note(struct release_note *note)
{
	LIST_REMOVE(note, entry);
	free(note);
}

static void on_release_done(struct release *release, void *userdata)
{
	struct allocs *allocs = userdata;
	struct release_entry *entry;

	LIST_FOREACH (entry, &allocs->releases, entry) {
		if (entry->release == release)
			break;
	}
	if (entry) {
		LIST_REMOVE(entry, entry);
		allocs->n_releases--;
		/* without a receipt it is begun again, and needs its note */
		if (receipts_find(allocs->env->receipts, release_claim_id(release), true))
			drop_note(entry->note);
		free(entry);
	}
	release_free(release);
}

/* The server may have the claim under another id since: its grant is the same. */
static struct release_note *find_note(const struct allocs *allocs, const struct claim *claim,
				      const char *wire_volume)
{
	struct release_note *note;

	LIST_FOREACH (note, &allocs->notes, entry) {
		if (note->generation == claim->generation &&
		    str_eq(note->target.alloc_id, claim->allocation_id) &&
		    str_eq(note->target.wire_volume, wire_volume))
			return note;
	}
	return NULL;
}

static struct release_note *make_note(struct allocs *allocs, const struct claim *claim,
				      const char *wire_volume)
{
	struct release_note *note = calloc(1, sizeof(*note));

	if (!note)
		return NULL;
	memcpy(note->claim_id, claim->id, sizeof(note->claim_id));
	memcpy(note->boot_id, allocs->env->boot_id, sizeof(note->boot_id));
	memcpy(note->target.alloc_id, claim->allocation_id, sizeof(note->target.alloc_id));
	(void)str_copy(note->target.wire_volume, sizeof(note->target.wire_volume), wire_volume);
	note->generation = claim->generation;
	LIST_INSERT_HEAD(&allocs->notes, note, entry);
	return note;
}

static enum status begin_release(struct allocs *allocs, const struct claim *claim, const char *wire_volume,
				 const struct ticket *ticket, struct error *err)
{
	struct release_note *note = find_note(allocs, claim, wire_volume);
	struct release_entry *entry;
	enum status status;

	LIST_FOREACH (entry, &allocs->releases, entry) {
		if (!note || entry->note != note)
			continue;
		release_name_claim(entry->release, claim);
		if (release_is_without_plugin(claim))
			release_force(entry->release, claim);
		return STATUS_OK;
	}
	if (allocs->n_releases >= RELEASES_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "%d claims are being released already",
				 RELEASES_MAX);
	entry = calloc(1, sizeof(*entry));
	if (entry)
		entry->note = note ? note : make_note(allocs, claim, wire_volume);
	status = entry && entry->note ? release_new(allocs->env, claim, wire_volume, ticket, entry->note,
						    on_release_done, allocs, &entry->release, err)
				      : error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM,
						  "cannot release claim %s", claim->id);
	if (status != STATUS_OK) {
		if (entry && entry->note && !note)
			drop_note(entry->note);
		free(entry);
		return status;
	}
	LIST_INSERT_HEAD(&allocs->releases, entry, entry);
	allocs->n_releases++;
	if (allocs->is_adopted)
		release_start(entry->release);
	return STATUS_OK;
}

static bool has_claim(const struct alloc_record *record, const struct claim *claim)
{
	for (uint32_t i = 0; i < record->alloc.n_volumes; i++)
		if (volume_record_is_held_by(&record->volumes[i], claim))
			return true;
	return false;
}

/* This node has gone back, or was taken to be gone: its work must not continue with what may be another's. */
static bool must_give_up(const struct allocs *allocs, const struct alloc_record *record,
			 const struct claim *claim)
{
	return claim->was_freed && record->phase < ALLOC_STOPPING &&
	       str_eq(claim->boot_id, allocs->env->boot_id) && str_eq(record->boot_id, claim->boot_id) &&
	       has_claim(record, claim);
}

static void give_up(struct alloc_runner *runner, const struct claim *claim)
{
	struct error why;

	(void)error_set(
		&why, STATUS_ABORTED, 0,
		"volume %s was freed by the server while this node had it mounted, and may be another "
		"node's since: this machine was reverted to a snapshot, its journal was put back, or "
		"it was attested as gone. Check the volume's content",
		claim->volume_id);
	log_ctx(LOG_CRIT,
		&(struct log_ctx){.volume = claim->volume_id,
				  .alloc = claim->allocation_id,
				  .claim = claim->id,
				  .op = "release",
				  .generation = claim->generation,
				  .err = &why},
		"allocation %s is stopped at the server's order", claim->allocation_id);
	alloc_runner_fail(runner, &why);
}

enum status allocs_release(struct allocs *allocs, const struct claim *claim, const char *wire_volume,
			   const struct ticket *ticket, struct error *err)
{
	const struct receipt *receipt = receipts_find(allocs->env->receipts, claim->id, true);
	const struct alloc_entry *entry = find(allocs, claim->allocation_id);
	enum alloc_phase phase = entry ? alloc_runner_record(entry->runner)->phase : ALLOC_STOPPED;

	if (!id_is_uuid(claim->id) || !id_is_uuid(claim->allocation_id) || !id_is_label(wire_volume))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the server's order to release claim '%.64s' names a malformed id",
				 claim->id);
	if (receipt) {
		allocs->env->on_receipt(receipt, allocs->env->userdata);
		return STATUS_OK;
	}
	/* the mounts of this id are the other allocation's */
	if (entry && !find_of(allocs, claim->namespace, claim->allocation_id))
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"this node has another allocation %s, of another namespace: the claim on volume "
			"%s stays until that one has ended and is forgotten",
			claim->allocation_id, claim->volume_id);
	if (entry && must_give_up(allocs, alloc_runner_record(entry->runner), claim)) {
		give_up(entry->runner, claim);
		return STATUS_OK;
	}
	/* on its way by itself, or asked for again when it has ended without it */
	if (phase == ALLOC_STOPPING) {
		alloc_runner_name_claim(entry->runner, claim);
		if (release_is_without_plugin(claim))
			alloc_runner_force(entry->runner, claim);
		return STATUS_OK;
	}
	if (phase != ALLOC_STOPPED)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "allocation %s is %s on this node: stop it before its claim on volume %s is "
				 "released (holdfast alloc stop %s)",
				 claim->allocation_id, alloc_phase_name(phase), claim->volume_id,
				 claim->allocation_id);
	return begin_release(allocs, claim, wire_volume, ticket, err);
}

/* The volume that an allocation has, or may have, at a slot. */
static const struct volume_record *volume_at(const struct allocs *allocs, const char *alloc_id, uint8_t slot)
{
	const struct alloc_entry *entry = find(allocs, alloc_id);
	const struct alloc_record *record = entry ? alloc_runner_record(entry->runner) : NULL;

	if (!record || slot >= record->alloc.n_volumes || !volume_record_is_live(&record->volumes[slot]))
		return NULL;
	return &record->volumes[slot];
}

bool allocs_know_publish(const struct allocs *allocs, const char *alloc_id, uint8_t slot)
{
	return volume_at(allocs, alloc_id, slot) != NULL;
}

static bool is_use(const struct volume_target *target, enum volume_use use)
{
	return use == VOLUME_USE_ANY || use == volume_target_use(target) ||
	       (use == VOLUME_USE_WITH_PLUGIN && !target->without_plugin);
}

static bool journal_uses(const struct allocs *allocs, const char *wire_volume, enum volume_use use,
			 const char *but_alloc, uint8_t but_slot)
{
	struct alloc_tree root = allocs->tree;
	struct alloc_entry *entry;

	RB_FOREACH (entry, alloc_tree, &root) {
		const struct alloc_record *record = alloc_runner_record(entry->runner);

		for (uint8_t i = 0; i < record->alloc.n_volumes; i++) {
			if (volume_record_is_live(&record->volumes[i]) &&
			    str_eq(record->volumes[i].target.wire_volume, wire_volume) &&
			    is_use(&record->volumes[i].target, use) &&
			    !(i == but_slot && str_eq(entry->id, but_alloc)))
				return true;
		}
	}
	return false;
}

bool allocs_know_stage(const struct allocs *allocs, const char *wire_volume)
{
	return journal_uses(allocs, wire_volume, VOLUME_USE_ANY, "", 0);
}

/* Returns whether a publish of no known allocation is of the staged device: it may be of any volume there. */
static bool kernel_uses(const struct allocs *allocs, const char *wire_volume, const char *but_alloc,
			uint8_t but_slot)
{
	const struct mount_snapshot *observed = volume_manager_observed(allocs->env->volumes);
	const struct mount_snapshot_entry *staged = mount_snapshot_staged(observed, wire_volume);
	struct mount_snapshot_entry *published = NULL;

	if (!staged)
		return false;
	while ((published = mount_snapshot_next_published(observed, published))) {
		if (published->dev_major != staged->dev_major || published->dev_minor != staged->dev_minor)
			continue;
		if (published->slot == but_slot && str_eq(published->alloc, but_alloc))
			continue;
		if (!volume_at(allocs, published->alloc, published->slot))
			return true;
	}
	return false;
}

bool allocs_use_volume(const char *wire_volume, enum volume_use use, const char *alloc_id, uint8_t slot,
		       void *userdata)
{
	const struct allocs *allocs = userdata;
	/* no receipt comes of the end of such a publish: its release looks again when all have ended */
	bool is_of_release = alloc_id[0] != '\0' && !volume_at(allocs, alloc_id, slot);

	if (use == VOLUME_USE_UNKNOWN)
		return kernel_uses(allocs, wire_volume, alloc_id, slot);
	return journal_uses(allocs, wire_volume, use, alloc_id, slot) ||
	       (is_of_release && kernel_uses(allocs, wire_volume, alloc_id, slot));
}

size_t allocs_count(const struct allocs *allocs)
{
	return allocs->n;
}

const struct alloc_runner *allocs_find(const struct allocs *allocs, const char *id)
{
	const struct alloc_entry *entry = find(allocs, id);

	return entry ? entry->runner : NULL;
}

const struct alloc_runner *allocs_find_of(const struct allocs *allocs, const char *namespace, const char *id)
{
	const struct alloc_entry *entry = find_of(allocs, namespace, id);

	return entry ? entry->runner : NULL;
}

const struct alloc_runner *allocs_next(const struct allocs *allocs, const struct alloc_runner *previous)
{
	struct alloc_tree root = allocs->tree;
	struct alloc_entry *entry;

	if (!previous)
		entry = RB_MIN(alloc_tree, &root);
	else
		entry = RB_NEXT(alloc_tree, &root, find(allocs, alloc_runner_record(previous)->alloc.id));
	return entry ? entry->runner : NULL;
}

const struct release *allocs_next_release(const struct allocs *allocs, const struct release *previous)
{
	const struct release_entry *entry = LIST_FIRST(&allocs->releases);

	while (previous && entry && entry->release != previous)
		entry = LIST_NEXT(entry, entry);
	if (previous && entry)
		entry = LIST_NEXT(entry, entry);
	return entry ? entry->release : NULL;
}

enum status allocs_new(const struct runner_env *env, struct allocs **ret, struct error *err)
{
	struct allocs *allocs = calloc(1, sizeof(*allocs));

	if (!allocs)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot keep allocations");
	allocs->env = env;
	RB_INIT(&allocs->tree);
	LIST_INIT(&allocs->releases);
	LIST_INIT(&allocs->notes);
	*ret = allocs;
	return STATUS_OK;
}

void allocs_free(struct allocs *allocs)
{
	struct release_entry *release;
	struct release_note *note;
	struct alloc_entry *entry;

	if (!allocs)
		return;
	while ((entry = RB_MIN(alloc_tree, &allocs->tree)))
		drop(allocs, entry);
	while ((release = LIST_FIRST(&allocs->releases))) {
		LIST_REMOVE(release, entry);
		release_free(release->release);
		free(release);
	}
	while ((note = LIST_FIRST(&allocs->notes)))
		drop_note(note);
	free(allocs);
}
