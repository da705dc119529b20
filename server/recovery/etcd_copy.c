/* SPDX-License-Identifier: Apache-2.0 */
#include "recovery/etcd_copy.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "lead/lead.h"
#include "recovery/store_swap.h"
#include "state/schema.h"
#include "state/text.h"
#include "store/kv.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <string.h>

/* A server that was killed leads for as long as its lease lasts. */
enum { LEASES_TO_WAIT = 3 };

enum { TURN_US = 100000 }; /* between two turns of the loop, much less than a lease */

/* --- leading for a while --- */

struct visit {
	sd_event *event;
	struct lead *lead;
	struct kv *kv;
	bool is_leading;
};

static void visit_end(struct visit *visit)
{
	kv_close(visit->kv);
	lead_free(visit->lead);
	(void)sd_event_unref(visit->event);
}

static void on_leading(void *userdata)
{
	((struct visit *)userdata)->is_leading = true;
}

/* The store itself fails with that error. */
static void on_lost(const struct error *why, void *userdata)
{
}

static enum status refuse(const struct visit *visit, const struct lead_settings *settings, struct error *err)
{
	struct lead_view view;

	lead_view(visit->lead, &view);
	if (view.other_schema > 0)
		return lead_check(visit->lead, err);
	if (!view.is_known)
		return error_set(err, STATUS_UNAVAILABLE, 0,
				 "etcd does not answer at %s, nor at the other endpoints of store \"etcd\"",
				 settings->endpoints[0]);
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "server %s (%s) leads: stop holdfast-server on every machine first", view.name,
			 view.address);
}

static enum status visit_begin(struct visit *visit, const struct lead_settings *settings, const char *cluster,
			       struct error *err)
{
	static const struct lead_events events = {.on_leading = on_leading, .on_lost = on_lost};
	const uint64_t end = clock_monotonic_us() + LEASES_TO_WAIT * settings->lease_us;
	int r = sd_event_new(&visit->event);

	if (r < 0)
		return error_set(err, status_from_errno(r), r, "make an event loop");
	TRY(lead_new(visit->event, settings, cluster, "no server", &events, visit, &visit->lead, err));
	for (uint64_t now = clock_monotonic_us(); !visit->is_leading && now < end; now = clock_monotonic_us())
		if (sd_event_run(visit->event, end - now) < 0)
			break;
	return visit->is_leading ? lead_open_store(visit->lead, &visit->kv, err)
				 : refuse(visit, settings, err);
}

/* --- digests --- */

struct digest {
	EVP_MD_CTX *ctx; /* owned; NULL: no memory, or an update failed */
	uint64_t n;
};

static void digest_begin(struct digest *digest)
{
	*digest = (struct digest){.ctx = EVP_MD_CTX_new()};
	if (digest->ctx && EVP_DigestInit_ex(digest->ctx, EVP_sha256(), NULL) != 1) {
		EVP_MD_CTX_free(digest->ctx);
		digest->ctx = NULL;
	}
}

/* Each with its length, so that no two lists of records have one text. */
static bool digest_add(const struct kv_item *item, void *userdata)
{
	struct digest *digest = userdata;
	uint64_t len = item->len;

	digest->n++;
	if (!digest->ctx)
		return false;
	return EVP_DigestUpdate(digest->ctx, item->key, strlen(item->key) + 1) == 1 &&
	       EVP_DigestUpdate(digest->ctx, &len, sizeof(len)) == 1 &&
	       EVP_DigestUpdate(digest->ctx, item->value, item->len) == 1;
}

static enum status digest_end(struct digest *digest, struct etcd_copy_result *ret, struct error *err)
{
	bool is_done = digest->ctx && EVP_DigestFinal_ex(digest->ctx, ret->sha256, NULL) == 1;

	EVP_MD_CTX_free(digest->ctx);
	ret->n = digest->n;
	return is_done ? STATUS_OK : error_no_memory(err, "a digest");
}

static enum status digest_kv(struct kv *kv, struct etcd_copy_result *ret, struct error *err)
{
	struct digest digest;
	enum status ended;
	enum status status;

	digest_begin(&digest);
	status = kv_range(kv, "", digest_add, &digest, err);
	ended = digest_end(&digest, ret, status == STATUS_OK ? err : NULL);
	ret->index = kv_revision(kv);
	return status == STATUS_OK ? ended : status;
}

static enum status digest_copy(const char *path, struct etcd_copy_result *ret, struct error *err)
{
	struct digest digest;
	enum status ended;
	enum status status;

	digest_begin(&digest);
	status = kv_walk_copy(&(struct kv_copy){.path = path}, digest_add, &digest, &ret->index, err);
	ended = digest_end(&digest, ret, status == STATUS_OK ? err : NULL);
	return status == STATUS_OK ? ended : status;
}

static enum status compare(const struct etcd_copy_result *from, const struct etcd_copy_result *to,
			   struct error *err)
{
	if (from->n == to->n && memcmp(from->sha256, to->sha256, sizeof(from->sha256)) == 0)
		return STATUS_OK;
	return error_set(err, STATUS_DATA_LOSS, 0,
			 "the copy differs from the original: %" PRIu64 " records became %" PRIu64, from->n,
			 to->n);
}

/* --- writing --- */

struct filling {
	struct kv_rewrite *rewrite;
	sd_event *event;  /* of the visit */
	uint64_t turn_us; /* when it is due, by the monotonic clock */
	const char *path; /* of the copy */
	uint64_t above;	  /* index that the records must exceed */
	enum status status;
	struct error *err;
};

static void keep_lease(struct filling *filling)
{
	const uint64_t now_us = clock_monotonic_us();

	if (now_us < filling->turn_us)
		return;
	filling->turn_us = now_us + TURN_US;
	(void)sd_event_run(filling->event, 0);
}

static bool put_item(const struct kv_item *item, void *userdata)
{
	struct filling *filling = userdata;
	const struct kv_op op = {.key = item->key, .value = item->value, .len = item->len};

	keep_lease(filling);
	filling->status = kv_rewrite_put(filling->rewrite, &op, filling->err);
	return filling->status == STATUS_OK;
}

static bool delete_item(const struct kv_item *item, void *userdata)
{
	struct filling *filling = userdata;

	filling->status = kv_rewrite_put(filling->rewrite, &(struct kv_op){.key = item->key}, filling->err);
	return filling->status == STATUS_OK;
}

/* Writes the copy's records in place of the present ones. */
static enum status fill(struct kv_rewrite *rewrite, void *userdata, struct error *err)
{
	struct filling *filling = userdata;
	const struct kv_copy copy = {.path = filling->path, .is_checked = true};
	uint64_t index;

	filling->rewrite = rewrite;
	filling->err = err;
	kv_rewrite_advance(rewrite, filling->above);
	TRY(kv_rewrite_range(rewrite, "", delete_item, filling, err));
	if (filling->status == STATUS_OK)
		TRY(kv_walk_copy(&copy, put_item, filling, &index, err));
	return filling->status;
}

static bool note_one(const struct kv_item *item, void *userdata)
{
	*(bool *)userdata = true;
	return false;
}

/* Is anything there? */
static enum status etcd_copy_look(struct kv *kv, bool *ret, struct error *err)
{
	*ret = false;
	return kv_range_from(kv, "", "", 1, note_one, ret, err);
}

/* Fails if the store was moved to another server, where its records have changed since. */
static enum status check_retired(const struct kv *kv, const struct lead_settings *settings, struct error *err)
{
	const char *by = kv_etcd_retired_by(kv);

	if (by[0] == '\0' || str_eq(by, settings->name))
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "the store in etcd at %s was moved to the sqlite of server %s: nothing was changed; "
			 "the data in etcd is of that time. Next: holdfast operator backup there",
			 settings->prefix, by);
}

/* Is the store in etcd the copy that an earlier run of @move made? */
static enum status is_moved(struct kv *kv, const struct etcd_copy_move *move, bool *ret, struct error *err)
{
	struct schema schema;

	*ret = false;
	if (!move || !move->is_begun)
		return STATUS_OK;
	TRY(schema_read(kv, &schema, err));
	*ret = str_eq(schema.store_id, move->store_id);
	return STATUS_OK;
}

static enum status copy_into(const struct visit *visit, const char *path, const struct etcd_copy_result *from,
			     struct etcd_copy_result *ret, struct error *err)
{
	struct filling filling = {
		.event = visit->event, .path = path, .above = from->index, .status = STATUS_OK};
	struct etcd_copy_result to;

	TRY(kv_rewrite(visit->kv, fill, &filling, err));
	TRY(digest_kv(visit->kv, &to, err));
	TRY(compare(from, &to, err));
	*ret = to;
	return STATUS_OK;
}

enum status etcd_copy_in(const struct lead_settings *settings, const char *cluster, const char *path,
			 bool may_replace, const struct etcd_copy_move *move, struct etcd_copy_result *ret,
			 struct error *err)
{
	cleanup(visit_end) struct visit visit = {.event = NULL};
	struct etcd_copy_result from;
	bool is_there, is_copy;

	TRY(digest_copy(path, &from, err));
	TRY(visit_begin(&visit, settings, cluster, err));
	TRY(check_retired(visit.kv, settings, err));
	TRY(etcd_copy_look(visit.kv, &is_there, err));
	may_replace |= kv_etcd_retired_by(visit.kv)[0] != '\0'; /* its records were moved away */
	if (is_there && !may_replace) {
		TRY(is_moved(visit.kv, move, &is_copy, err));
		if (is_copy)
			return digest_kv(visit.kv, ret, err);
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"there is a store in etcd at %s: nothing was changed; another prefix in store "
			"\"etcd\" begins a new one",
			settings->prefix);
	}
	if (move)
		TRY(store_swap_leave(move->data_dir, settings->prefix, err));
	return copy_into(&visit, path, &from, ret, err);
}

/* --- out --- */

struct reading {
	const struct lead_settings *settings;
	const char *cluster;
	struct kv_rewrite *rewrite;
	struct digest digest;
	uint64_t revision;
	enum status status;
	struct error *err;
};

/* Each record gets an index above all that the store in etcd ever answered, which deletions have raised too.
 */
static bool write_item(const struct kv_item *item, void *userdata)
{
	struct reading *reading = userdata;
	cleanup_free char *text = text_of_stored(item->key, item->value, item->len);
	const struct kv_op op = {.key = item->key, .value = item->value, .len = item->len, .text = text};

	kv_rewrite_advance(reading->rewrite, reading->revision);
	reading->status = kv_rewrite_put(reading->rewrite, &op, reading->err);
	return reading->status == STATUS_OK && digest_add(item, &reading->digest);
}

static enum status read_all(struct kv_rewrite *rewrite, void *userdata, struct error *err)
{
	struct reading *reading = userdata;

	reading->rewrite = rewrite;
	reading->err = err;
	TRY(lead_walk_store(reading->settings, reading->cluster, write_item, reading, &reading->revision,
			    err));
	return reading->status;
}

static enum status write_file(struct reading *reading, const char *path, struct error *err)
{
	cleanup(store_file_closep) struct store_file file = {NULL, NULL};

	TRY(store_file_open(path, &file, err));
	return kv_rewrite(file.kv, read_all, reading, err);
}

static enum status make_file(struct reading *reading, const char *path, struct etcd_copy_result *ret,
			     struct error *err)
{
	struct etcd_copy_result from = {.n = 0};
	enum status ended;
	enum status status;

	digest_begin(&reading->digest);
	status = write_file(reading, path, err);
	if (status == STATUS_OK)
		status = kv_seal_copy(path, err);
	ended = digest_end(&reading->digest, &from, status == STATUS_OK ? err : NULL);
	if (status == STATUS_OK)
		status = ended;
	if (status == STATUS_OK && from.n == 0)
		return error_set(err, STATUS_NOT_FOUND, 0, "there is no store in etcd at %s",
				 reading->settings->prefix);
	if (status == STATUS_OK)
		status = digest_copy(path, ret, err);
	return status == STATUS_OK ? compare(&from, ret, err) : status;
}

/* Fails if a server leads, or has the records. */
static enum status check_alone(const struct lead_settings *settings, const char *cluster, struct error *err)
{
	cleanup(visit_end) struct visit visit = {.event = NULL};

	TRY(visit_begin(&visit, settings, cluster, err));
	return check_retired(visit.kv, settings, err);
}

/* The copy, of @revision, may have taken longer than any lease. */
static enum status retire(const struct lead_settings *settings, const char *cluster, uint64_t revision,
			  struct error *err)
{
	cleanup(visit_end) struct visit visit = {.event = NULL};

	TRY(visit_begin(&visit, settings, cluster, err));
	if (kv_revision(visit.kv) != revision)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "a server wrote to the store in etcd while it was copied: stop "
				 "holdfast-server on every machine, and move it again");
	return kv_retire_etcd(visit.kv, settings->name, err);
}

enum status etcd_copy_out(const struct lead_settings *settings, const char *cluster, const char *path,
			  enum etcd_copy_how how, struct etcd_copy_result *ret, struct error *err)
{
	struct reading reading = {.settings = settings, .cluster = cluster, .status = STATUS_OK};
	struct etcd_copy_result result;

	if (how != ETCD_COPY_BESIDE)
		TRY(check_alone(settings, cluster, err));
	enum status status = make_file(&reading, path, &result, err);
	if (status == STATUS_OK && how == ETCD_COPY_AND_RETIRE)
		status = retire(settings, cluster, reading.revision, err);
	if (status == STATUS_OK)
		*ret = result;
	else
		copy_remove(path);
	return status;
}
