/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/release.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/str.h"
#include "log/log.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct release {
	const struct runner_env *env; /* borrowed */
	struct claim claim;
	struct volume_target target;
	struct receipt receipt;
	struct release_note *note; /* borrowed */
	release_done_fn *done;
	void *userdata;
	uint32_t slots; /* bit per slot that is still to be unpublished */
	struct volume_op *task;
	bool has_receipt; /* which is being written */
};

_Static_assert(MH_SLOT_MAX < 32, "a bit for every slot");

static void proceed(struct release *release);

static struct log_ctx context(const struct release *release)
{
	return (struct log_ctx){
		.volume = release->target.volume_id,
		.wire_volume = release->target.wire_volume,
		.alloc = release->target.alloc_id,
		.claim = release->receipt.claim_id,
		.op = "release",
		.generation = release->receipt.generation,
	};
}

/* Is something else than @wire_volume staged from the device? */
static bool other_volume_has_device(const struct mount_snapshot *observed, const char *wire_volume,
				    const struct mount_snapshot_entry *published)
{
	struct mount_snapshot_entry *staged = NULL;

	while ((staged = mount_snapshot_next_staged(observed, staged))) {
		if (!str_eq(staged->volume, wire_volume) && staged->dev_major == published->dev_major &&
		    staged->dev_minor == published->dev_minor)
			return true;
	}
	return false;
}

/* Which publishes of the allocation are of this volume: those of its device, and those that no other volume
 * explains. */
static uint32_t find_slots(const struct release *release)
{
	const struct mount_snapshot *observed = volume_manager_observed(release->env->volumes);
	const struct mount_snapshot_entry *staged =
		mount_snapshot_staged(observed, release->target.wire_volume);
	uint32_t slots = 0;

	for (unsigned int slot = 0; slot <= MH_SLOT_MAX; slot++) {
		const struct mount_snapshot_entry *published =
			mount_snapshot_published(observed, release->target.alloc_id, (uint8_t)slot);

		if (!published)
			continue;
		if (staged ? published->dev_major == staged->dev_major &&
				     published->dev_minor == staged->dev_minor
			   : !other_volume_has_device(observed, release->target.wire_volume, published))
			slots |= UINT32_C(1) << slot;
	}
	return slots;
}

static void on_written(const struct error *err, void *userdata)
{
	struct release *release = userdata;
	const struct runner_env *env = release->env;
	struct log_ctx ctx = context(release);
	struct error failure;

	if (err) {
		env->on_broken(err, env->userdata);
		return;
	}
	if (receipts_add(env->receipts, &release->receipt, &failure) != STATUS_OK) {
		env->on_broken(&failure, env->userdata);
		return;
	}
	ctx.event = LOG_EVENT_VOLUME_UNPUBLISHED;
	log_ctx(LOG_NOTICE, &ctx, "volume %s is released at the server's order%s%s", ctx.volume,
		release->receipt.is_without_plugin ? ", without its plugin: " : "", release->receipt.kernel);
	env->on_receipt(&release->receipt, env->userdata);
	release->done(release, release->userdata);
}

static void release_finish(struct release *release)
{
	const struct journal_write write = {
		.receipt = &release->receipt,
		.forget_note = release->note->claim_id,
	};
	struct error err;

	release->has_receipt = true;
	if (journal_write(release->env->journal, &write, on_written, release, &err) != STATUS_OK)
		release->env->on_broken(&err, release->env->userdata);
}

static void on_kept(const struct error *err, void *userdata)
{
	struct release *release = userdata;

	if (err)
		release->env->on_broken(err, release->env->userdata);
	else
		volume_op_continue(release->task);
}

static void copy_device(const struct volume_target *from, struct volume_target *to)
{
	to->source.class = from->source.class;
	volume_target_keep_device(from, to);
}

static void on_device(const struct volume_target *target, void *userdata)
{
	struct release *release = userdata;
	const struct journal_write write = {.note = release->note};
	struct error err;

	copy_device(target, &release->target);
	copy_device(target, &release->note->target);
	if (journal_write(release->env->journal, &write, on_kept, release, &err) != STATUS_OK)
		release->env->on_broken(&err, release->env->userdata);
}

static void on_retry(const struct error *err, void *userdata)
{
	struct release *release = userdata;
	struct log_ctx ctx = context(release);

	ctx.event = LOG_EVENT_RELEASE_WAITS;
	ctx.err = err;
	log_ctx(LOG_WARNING, &ctx, "release of volume %s is tried again", ctx.volume);
	release->env->on_release_error(release->receipt.claim_id, release->receipt.generation, err,
				       release->env->userdata);
}

/* Once bypassed, it was never asked again. */
static void note_undone(struct release *release, const struct volume_mounted *undone)
{
	if (!undone)
		return;
	release->receipt.is_without_plugin = true;
	str_copy_text(release->receipt.kernel, sizeof(release->receipt.kernel), undone->kernel);
}

static void on_unmounted(const struct volume_mounted *mounted, const struct error *err, void *userdata)
{
	struct release *release = userdata;

	release->task = NULL;
	note_undone(release, mounted);
	release->slots &= release->slots - 1; /* the lowest one is done */
	proceed(release);
}

static void on_unstaged(const struct volume_mounted *mounted, const struct error *err, void *userdata)
{
	struct release *release = userdata;

	release->task = NULL;
	note_undone(release, mounted);
	release_finish(release);
}

static void proceed(struct release *release)
{
	struct volume_manager *volumes = release->env->volumes;
	enum status status;
	struct error err;

	if (release->slots != 0) {
		release->target.slot = (uint8_t)__builtin_ctz(release->slots);
		status = volume_manager_unmount(volumes, &release->target, on_unmounted, on_retry, on_device,
						release, &release->task, &err);
	} else {
		status = volume_manager_release(volumes, &release->target, on_unstaged, on_retry, on_device,
						release, &release->task, &err);
	}
	if (status == STATUS_OK)
		return;
	/* the server asks again: give up this attempt without a receipt */
	on_retry(&err, release);
	release->done(release, release->userdata);
}

/* Fills in the plugin, or the mount helper's profile, that releases the volume. */
static enum status name_profile(struct volume_target *target, const struct claim *claim, struct error *err)
{
	target->read_only = claim->mode == CLAIM_READ;
	/* claims from releases before there were plugins have no plugin_id */
	if (claim->plugin_id[0] == '\0' || str_eq(claim->plugin_id, PLUGIN_NATIVE)) {
		target->type = VOLUME_NATIVE;
		(void)str_copy(target->profile, sizeof(target->profile), claim->profile);
		return STATUS_OK;
	}
	if (!id_is_plugin(claim->plugin_id))
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"the server's order to release claim '%s' names the malformed plugin '%.64s'",
			claim->id, claim->plugin_id);
	target->type = VOLUME_CSI;
	target->access_mode = claim->access_mode;
	target->attachment_mode = claim->attachment_mode;
	(void)str_copy(target->profile, sizeof(target->profile), claim->plugin_id);
	(void)str_copy(target->external_id, sizeof(target->external_id),
		       claim->external_id[0] != '\0' ? claim->external_id : claim->volume_id);
	return STATUS_OK;
}

enum status release_new(const struct runner_env *env, const struct claim *claim, const char *wire_volume,
			const struct ticket *ticket, struct release_note *note, release_done_fn *done,
			void *userdata, struct release **ret, struct error *err)
{
	struct release *release;
	enum status status;

	assert(id_is_uuid(claim->id) && id_is_uuid(claim->allocation_id) && id_is_label(wire_volume));
	release = calloc(1, sizeof(*release));
	if (!release)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot release claim %s",
				 claim->id);
	release->env = env;
	release->done = done;
	release->userdata = userdata;
	release->note = note;
	release->claim = *claim;
	release->target.has_ticket = ticket != NULL;
	if (ticket)
		release->target.ticket = *ticket;
	release->receipt.generation = claim->generation;
	release->receipt.is_released = true;
	memcpy(release->receipt.claim_id, claim->id, sizeof(release->receipt.claim_id));
	memcpy(release->receipt.boot_id, claim->boot_id, sizeof(release->receipt.boot_id));
	memcpy(release->target.volume_id, claim->volume_id, sizeof(release->target.volume_id));
	memcpy(release->target.namespace, claim->namespace, sizeof(release->target.namespace));
	memcpy(release->target.alloc_id, claim->allocation_id, sizeof(release->target.alloc_id));
	(void)str_copy(release->target.wire_volume, sizeof(release->target.wire_volume), wire_volume);
	status = name_profile(&release->target, claim, err);
	if (status != STATUS_OK) {
		free(release);
		return status;
	}
	if (release_is_without_plugin(claim))
		release_force(release, claim);
	*ret = release;
	return STATUS_OK;
}

bool release_is_without_plugin(const struct claim *claim)
{
	bool was_given_up =
		claim->was_freed &&
		(claim->evidence == EVIDENCE_OPERATOR || claim->evidence == EVIDENCE_STORAGE_FENCE ||
		 claim->evidence == EVIDENCE_POWER_FENCE || claim->evidence == EVIDENCE_NETWORK_FENCE);

	return claim->plugin_waiver[0] != '\0' || claim->state >= CLAIM_NODE_DETACHED ||
	       (was_given_up && claim->attempts > 0); /* its plugin has failed */
}

void release_force(struct release *release, const struct claim *claim)
{
	release->target.without_plugin = true;
	release->target.is_freed = claim->state >= CLAIM_NODE_DETACHED;
	if (release->task)
		volume_op_force(release->task, release->target.is_freed);
}

/* Returns the volume's class from its profile. For an unknown profile: SOURCE_BLOCK, so that its superblock
 * is looked at as that of a block device. */
static enum source_class find_class(const struct release *release)
{
	const struct mount_snapshot *observed = volume_manager_observed(release->env->volumes);

	for (size_t i = 0; i < observed->n_profiles; i++) {
		if (str_eq(observed->profiles[i].name, release->target.profile) &&
		    observed->profiles[i].class < MH_CLASS_CSI)
			return (enum source_class)observed->profiles[i].class;
	}
	return SOURCE_BLOCK;
}

void release_start(struct release *release)
{
	assert(!release->task);
	release->slots = find_slots(release);
	copy_device(&release->note->target, &release->target);
	if (release->target.type != VOLUME_CSI && release->target.source.class == SOURCE_UNSPECIFIED)
		release->target.source.class = find_class(release);
	else if (release->target.type == VOLUME_CSI && release->slots != 0)
		/* nothing is published that a plugin has not mounted; else the volume manager looks */
		volume_manager_note_plugin(release->env->volumes, release->target.wire_volume);
	proceed(release);
}

void release_name_claim(struct release *release, const struct claim *claim)
{
	if (release->has_receipt) /* the server, which does not know it, orders again */
		return;
	memcpy(release->claim.id, claim->id, sizeof(release->claim.id));
	memcpy(release->receipt.claim_id, claim->id, sizeof(release->receipt.claim_id));
}

const struct claim *release_claim(const struct release *release)
{
	return &release->claim;
}

const struct ticket *release_ticket(const struct release *release)
{
	return release->target.has_ticket ? &release->target.ticket : NULL;
}

const char *release_claim_id(const struct release *release)
{
	return release->receipt.claim_id;
}

const char *release_alloc_id(const struct release *release)
{
	return release->target.alloc_id;
}

const char *release_volume_id(const struct release *release)
{
	return release->target.volume_id;
}

bool release_info(const struct release *release, struct volume_op_info *ret)
{
	if (!release->task)
		return false;
	*ret = volume_op_info(release->task);
	return true;
}

void release_free(struct release *release)
{
	free(release);
}
