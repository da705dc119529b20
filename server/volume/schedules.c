/* SPDX-License-Identifier: Apache-2.0 */
/* Makes and removes the snapshots of schedules. */

#include "volume/schedules.h"

#include "server.h"

#include "access/audit.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/tree.h"
#include "base/turn.h"
#include "log/log.h"
#include "model/message.h"
#include "model/schedule.h"
#include "plugin/controller.h"
#include "rpc/wakeup.h"
#include "state/keys.h"
#include "volume/snapshots.h"
#include "volume/store.h"

#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <time.h>

#define WHAT_FAILED "Snapshots.Failed"
#define TURN_US (10 * USEC_PER_MSEC) /* of one look, after which no further schedule is advanced in it */

enum {
	TIME_SIZE = sizeof("20261126T162045Z"),
	NAME_SIZE = SNAPSHOT_NAME_SIZE,
	WHY_SIZE = NAME_SIZE + 2 + ERROR_MSG_MAX,
	MSEC_PER_SEC = 1000,
	WORD_SIZE = 4 * EXTERNAL_ID_MAX + 3,
};

struct schedule {
	RB_ENTRY(schedule) by_key;
	char namespace[NAMESPACE_MAX + 1];
	char id[VOLUME_ID_MAX + 1];
	int64_t look_ms;
	unsigned int failures;
	bool cannot_remove;		   /* it was a removal that failed */
	char *error;			   /* owned; of the last try; NULL: it did not fail */
	bool is_busy;			   /* its call has not ended */
	char plugin_id[PLUGIN_ID_MAX + 1]; /* while it is busy */
	LIST_ENTRY(schedule) of_busy;
};

RB_HEAD(schedule_tree, schedule);
LIST_HEAD(schedule_list, schedule);

struct schedules {
	struct server *server;
	sd_event_source *timer; /* owned; while there is a schedule */
	uint64_t timer_us;	/* monotonic; when it wakes */
	int64_t ahead_ms;	/* CLOCK_REALTIME of CLOCK_MONOTONIC, at the last look */
	struct schedule_tree all;
	struct schedule_list busy;
	char plugin_of_turn[PLUGIN_ID_MAX + 1]; /* of which a schedule had its look last */
	struct schedules_count count;
};

static int compare(const struct schedule *a, const struct schedule *b)
{
	int c = strcmp(a->namespace, b->namespace);

	return c != 0 ? c : strcmp(a->id, b->id);
}

TREE_GENERATE(schedule_tree, schedule, by_key, compare)

static struct schedule *find(struct schedules *schedules, const char *namespace, const char *id)
{
	struct schedule key;

	if (str_copy(key.namespace, sizeof(key.namespace), namespace) < 0 ||
	    str_copy(key.id, sizeof(key.id), id) < 0)
		return NULL;
	return RB_FIND(schedule_tree, &schedules->all, &key);
}

static void set_error(struct schedules *schedules, struct schedule *schedule, const char *text)
{
	char *copy = text ? strdup(text) : NULL;

	if (text && !copy)
		return; /* the older one stays */
	schedules->count.failing += (copy != NULL) - (uint64_t)(schedule->error != NULL);
	free(schedule->error);
	schedule->error = copy;
}

static void set_idle(struct schedule *schedule)
{
	if (schedule->is_busy)
		LIST_REMOVE(schedule, of_busy);
	schedule->is_busy = false;
}

static void forget(struct schedules *schedules, struct schedule *schedule)
{
	set_error(schedules, schedule, NULL);
	set_idle(schedule);
	RB_REMOVE(schedule_tree, &schedules->all, schedule);
	schedules->count.schedules--;
	free(schedule);
}

static int64_t ahead_ms(void)
{
	return clock_realtime_ms() - (int64_t)(clock_monotonic_us() / USEC_PER_MSEC);
}

/* After the clock was set back, times of looks are of a time to come: all are looked at. */
static void note_clock(struct schedules *schedules, int64_t now_ms)
{
	bool was_set_back = ahead_ms() < schedules->ahead_ms - SCHEDULE_GRACE_MS;
	struct schedule *schedule;

	schedules->ahead_ms = ahead_ms();
	if (!was_set_back)
		return;
	RB_FOREACH (schedule, schedule_tree, &schedules->all)
		schedule->look_ms = MIN(schedule->look_ms, now_ms);
}

/* --- the snapshots of a schedule --- */

struct made {
	const Holdfast__V1__Snapshot **records; /* owned; of the state */
	struct schedule_snapshot *snapshots;	/* owned */
	size_t n;
	int64_t since_ms; /* older ones are not its own */
};

static void made_release(struct made *made)
{
	free(made->records);
	free(made->snapshots);
}

static void name_of(const struct server *server, const struct volume *volume, int64_t slot_ms,
		    char ret[static NAME_SIZE])
{
	const time_t seconds = (time_t)(slot_ms / MSEC_PER_SEC);
	char text[TIME_SIZE] = "";
	struct tm tm;
	size_t n;

	snapshots_auto_prefix(server, volume, ret);
	n = strlen(ret);
	if (gmtime_r(&seconds, &tm))
		(void)strftime(text, sizeof(text), "%Y%m%dT%H%M%SZ", &tm);
	(void)str_copy(ret + n, NAME_SIZE - n, text);
}

/* A volume that was deleted and created again may have its former name and provider's id, but other data: its
 * schedule neither counts nor removes the snapshots from before @since_ms, its creation; 0: it was only
 * registered.
 */
static bool is_of(const Holdfast__V1__Snapshot *snapshot, const struct volume *volume, int64_t since_ms)
{
	return snapshot->scheduled_ms != 0 && snapshot->scheduled_ms >= since_ms &&
	       str_eq(snapshot->namespace_, volume->namespace) &&
	       str_eq(snapshot->source_volume_id, volume->id) &&
	       str_eq(snapshot->external_source_id, volume->external_id);
}

static enum schedule_snapshot_state state_of(const Holdfast__V1__Snapshot *snapshot)
{
	if (snapshot->snapshot_id[0] == '\0')
		return SCHEDULE_SNAPSHOT_ASKED;
	if (snapshot->deleting)
		return SCHEDULE_SNAPSHOT_DELETING;
	return snapshot->ready ? SCHEDULE_SNAPSHOT_READY : SCHEDULE_SNAPSHOT_NOT_READY;
}

/* The snapshots that the schedule of @volume made, the oldest first. False when memory is short. */
static bool read_made(struct server *server, const struct volume *volume, struct made *ret)
{
	char prefix[NAME_SIZE], key[OBJECT_KEY_SIZE];
	const Holdfast__V1__VolumeDetail *detail = volume_detail_of(server, volume);
	struct record_entry *first, *entry;
	size_t n = 0;

	snapshots_auto_prefix(server, volume, prefix);
	snapshots_key(volume->plugin_id, volume->namespace, prefix, key);
	first = records_from(&server->state.records, key);
	for (entry = first; entry && str_starts_with(entry->key, key);
	     entry = snapshots_next(entry, volume->plugin_id))
		n++;
	ret->records = calloc(n + 1, sizeof(const Holdfast__V1__Snapshot *));
	ret->snapshots = calloc(n + 1, sizeof(*ret->snapshots));
	ret->n = 0;
	ret->since_ms = detail && detail->made_by_provider ? volume->create_time_ms : 0;
	if (!ret->records || !ret->snapshots)
		return false;
	for (entry = first; n > 0; entry = snapshots_next(entry, volume->plugin_id), n--) {
		const Holdfast__V1__Snapshot *snapshot = snapshots_of(entry);

		if (!is_of(snapshot, volume, ret->since_ms))
			continue;
		ret->records[ret->n] = snapshot;
		ret->snapshots[ret->n++] =
			(struct schedule_snapshot){snapshot->scheduled_ms, state_of(snapshot)};
	}
	return true;
}

static const Holdfast__V1__SnapshotSchedule *policy_of(struct server *server, const struct volume *volume)
{
	const Holdfast__V1__VolumeDetail *detail = volume_detail_of(server, volume);

	return detail ? detail->snapshots : NULL;
}

static struct schedule_step next_step(const struct schedule *schedule,
				      const Holdfast__V1__SnapshotSchedule *policy, const struct made *made)
{
	const struct schedule_policy pure = {.every_ms = (int64_t)policy->every_ms,
					     .keep = policy->keep,
					     .cannot_remove = schedule && schedule->cannot_remove};
	int64_t now_ms = clock_realtime_ms();

	/* one from before the volume, whose clock was ahead, would not count, and the next one be made at
	 * once */
	return schedule_next(&pure, made->snapshots, made->n, MAX(now_ms, made->since_ms));
}

/* --- steps --- */

static void succeeded(struct schedules *schedules, struct schedule *schedule)
{
	schedule->failures = 0;
	schedule->cannot_remove = false;
	set_error(schedules, schedule, NULL);
}

/* At least once a period. */
static int64_t retry_ms(struct server *server, const struct schedule *schedule,
			const struct volume_entry *entry)
{
	const Holdfast__V1__SnapshotSchedule *policy = entry ? policy_of(server, &entry->volume) : NULL;
	int64_t max_ms = policy && policy->every_ms < SCHEDULE_RETRY_MAX_MS ? (int64_t)policy->every_ms
									    : SCHEDULE_RETRY_MAX_MS;
	int64_t wait_ms = SCHEDULE_RETRY_MIN_MS;

	for (unsigned int i = 1; i < schedule->failures && wait_ms < max_ms; i++)
		wait_ms *= 2;
	return wait_ms < max_ms ? wait_ms : max_ms;
}

/* Records the failure once for each cause: a provider that is away for a week fills no log. */
static void failed(struct schedules *schedules, struct schedule *schedule, const char *name,
		   const struct error *cause)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	char object[VOLUME_OBJECT_SIZE], why[WHY_SIZE];
	const struct volume_entry *entry =
		state_volume(&schedules->server->state, schedule->namespace, schedule->id);
	bool is_known = schedule->error && str_eq(schedule->error, cause->msg);

	schedules->count.failed++;
	schedule->failures++;
	schedule->look_ms = clock_realtime_ms() + retry_ms(schedules->server, schedule, entry);
	set_error(schedules, schedule, cause->msg);
	if (is_known || !entry)
		return;
	(void)str_format(why, sizeof(why), "%s: %s", name, cause->msg);
	audit_own(schedules->server, &change, WHAT_FAILED, volume_object(&entry->volume, object), why);
	(void)change_commit(schedules->server, &change, NULL, NULL, NULL);
}

/* Looks within that time, or earlier. */
static void rearm(struct schedules *schedules, int64_t delay_ms);

/* The schedule whose call has ended; NULL: it is forgotten, or the server ends. */
static struct schedule *end_call(struct server *server, const Holdfast__V1__Snapshot *snapshot)
{
	struct schedule *schedule;

	if (!server->schedules || controllers_have_stopped(server))
		return NULL;
	schedule = find(server->schedules, snapshot->namespace_, snapshot->source_volume_id);
	if (schedule) {
		set_idle(schedule);
		schedule->look_ms = clock_realtime_ms();
		rearm(server->schedules, SCHEDULE_LOOK_MIN_MS);
	}
	return schedule;
}

/* Quotes @id of a plugin for a shell, because people copy the command. */
static const char *shell_word(const char *id, char ret[static WORD_SIZE])
{
	char *to = ret;

	if (str_is_made_of(id, "._-:/@"))
		return id;
	if (strlen(id) > EXTERNAL_ID_MAX)
		return "SNAPSHOT";
	*to++ = '\'';
	for (; *id != '\0'; id++)
		to = *id == '\'' ? stpcpy(to, "'\\''") : mempcpy(to, id, 1);
	(void)stpcpy(to, "'");
	return ret;
}

/* One that its provider works on for longer than a period is in the way of the next one. */
static void not_ready(struct schedules *schedules, struct schedule *schedule,
		      const Holdfast__V1__Snapshot *snapshot)
{
	const struct volume_entry *entry =
		state_volume(&schedules->server->state, schedule->namespace, schedule->id);
	const Holdfast__V1__SnapshotSchedule *policy =
		entry ? policy_of(schedules->server, &entry->volume) : NULL;
	char word[WORD_SIZE];
	struct error err;

	schedule->look_ms += SCHEDULE_RETRY_MIN_MS;
	if (!policy || clock_realtime_ms() < snapshot->scheduled_ms + (int64_t)policy->every_ms)
		return;
	(void)error_set(
		&err, STATUS_DEADLINE_EXCEEDED, 0,
		"the provider has made a snapshot and does not report it ready; if it never will, delete "
		"it: holdfast volume snapshot delete -- %s %s",
		snapshot->plugin_id, shell_word(snapshot->snapshot_id, word));
	failed(schedules, schedule, snapshot->name, &err);
}

static void on_made(struct server *server, const Holdfast__V1__Snapshot *snapshot, const struct error *err)
{
	struct schedule *schedule = end_call(server, snapshot);

	if (!schedule)
		return;
	if (err) {
		failed(server->schedules, schedule, snapshot->name, err);
		schedule->cannot_remove = false;
		return;
	}
	if (!snapshot->ready) {
		not_ready(server->schedules, schedule, snapshot);
		return;
	}
	server->schedules->count.made++;
	if (!schedule->cannot_remove)
		succeeded(server->schedules, schedule);
}

static void on_removed(struct server *server, const Holdfast__V1__Snapshot *snapshot, const struct error *err)
{
	struct schedule *schedule = end_call(server, snapshot);

	if (!schedule)
		return;
	if (err) {
		failed(server->schedules, schedule, snapshot->name, err);
		schedule->cannot_remove = true;
		return;
	}
	server->schedules->count.removed++;
	succeeded(server->schedules, schedule);
}

static bool has_room(const struct schedules *schedules, const struct plugin_entry *plugin)
{
	const struct schedule *busy;
	size_t n = 0;

	LIST_FOREACH (busy, &schedules->busy, of_busy)
		n += str_eq(busy->plugin_id, plugin->id);
	return n < SCHEDULE_CALLS_MAX;
}

/* Begins a call of the step. */
static void begin(struct schedules *schedules, struct schedule *schedule, const struct volume_entry *entry,
		  const struct schedule_step *step, const struct made *made)
{
	struct server *server = schedules->server;
	enum status status;
	char name[NAME_SIZE];
	struct error err;

	if (step->action == SCHEDULE_MAKE)
		name_of(server, &entry->volume, step->time_ms, name);
	else
		(void)str_copy(name, sizeof(name), made->records[step->i]->name);
	if (step->action == SCHEDULE_REMOVE)
		status = snapshots_remove(server, made->records[step->i], on_removed, &err);
	else
		status = snapshots_make(server, entry, name, step->time_ms, on_made, &err);
	if (status != STATUS_OK) {
		if (status == STATUS_ABORTED) /* a caller's call about that snapshot is in flight */
			schedule->look_ms = clock_realtime_ms() + SCHEDULE_RETRY_MIN_MS;
		else
			failed(schedules, schedule, name, &err);
		schedule->cannot_remove = step->action == SCHEDULE_REMOVE;
		return;
	}
	schedule->is_busy = true;
	str_copy_text(schedule->plugin_id, sizeof(schedule->plugin_id), entry->volume.plugin_id);
	LIST_INSERT_HEAD(&schedules->busy, schedule, of_busy);
}

/* Also of one that has nothing to do now: it took a part of the look. */
static void take_turn(struct schedules *schedules, const struct volume_entry *entry)
{
	str_copy_text(entry->plugin->namespace_of_turn, sizeof(entry->plugin->namespace_of_turn),
		      entry->namespace);
	str_copy_text(schedules->plugin_of_turn, sizeof(schedules->plugin_of_turn), entry->plugin->id);
}

/* Returns false if the volume's schedule is gone. */
static bool advance(struct schedules *schedules, struct schedule *schedule)
{
	struct server *server = schedules->server;
	const struct volume_entry *entry = state_volume(&server->state, schedule->namespace, schedule->id);
	const Holdfast__V1__SnapshotSchedule *policy = entry ? policy_of(server, &entry->volume) : NULL;
	cleanup(made_release) struct made made = {.n = 0};
	struct schedule_step step;

	if (!policy)
		return false;
	if (!has_room(schedules, entry->plugin)) /* others have taken it in this look */
		return true;
	take_turn(schedules, entry);
	if (volume_store_check_usable(server, &entry->volume, NULL) != STATUS_OK ||
	    !read_made(server, &entry->volume, &made)) {
		schedule->look_ms = clock_realtime_ms() + SCHEDULE_RETRY_MIN_MS;
		return true;
	}
	step = next_step(schedule, policy, &made);
	if (step.action == SCHEDULE_WAIT) {
		schedule->look_ms = step.time_ms;
		succeeded(schedules, schedule);
	} else {
		begin(schedules, schedule, entry, &step, &made);
	}
	return true;
}

/* A schedule that is due; without a plugin its volume is gone. */
struct due {
	struct schedule *schedule;
	const struct plugin_entry *plugin;
};

/* Plugins take turns, and so do namespaces at each plugin. In a namespace the schedule that is due for the
 * longest time is first. */
static int by_turn(const void *a, const void *b, void *plugin_of_turn)
{
	const struct due *left = a, *right = b;
	int c = turn_compare(plugin_of_turn, left->plugin ? left->plugin->id : "",
			     right->plugin ? right->plugin->id : "");

	if (c == 0 && left->plugin)
		c = turn_compare(left->plugin->namespace_of_turn, left->schedule->namespace,
				 right->schedule->namespace);
	if (c != 0)
		return c;
	return (left->schedule->look_ms > right->schedule->look_ms) -
	       (left->schedule->look_ms < right->schedule->look_ms);
}

/* Advances the schedules that are due, as far as their plugins have room and there is time. False when memory
 * is short. */
static bool advance_due(struct schedules *schedules, int64_t now_ms)
{
	struct due *due = calloc(schedules->count.schedules + 1, sizeof(*due));
	struct schedule *schedule;
	uint64_t until_us;
	size_t n = 0;

	if (!due)
		return false;
	RB_FOREACH (schedule, schedule_tree, &schedules->all) {
		const struct volume_entry *entry;

		if (schedule->is_busy || schedule->look_ms > now_ms)
			continue;
		entry = state_volume(&schedules->server->state, schedule->namespace, schedule->id);
		if (!entry || has_room(schedules, entry->plugin))
			due[n++] = (struct due){schedule, entry ? entry->plugin : NULL};
	}
	qsort_r(due, n, sizeof(*due), by_turn, schedules->plugin_of_turn);
	until_us = clock_monotonic_us() + TURN_US;
	for (size_t i = 0; i < n && clock_monotonic_us() < until_us; i++)
		if (!advance(schedules, due[i].schedule))
			forget(schedules, due[i].schedule);
	free(due);
	return true;
}

static int on_look(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct schedules *schedules = userdata;
	int64_t now_ms = clock_realtime_ms(), next_ms = now_ms + SCHEDULE_LOOK_MAX_MS;
	struct schedule *schedule;

	wakeup_disarm(&schedules->timer);
	note_clock(schedules, now_ms);
	if (!advance_due(schedules, now_ms))
		log_line(LOG_ERR, "out of memory for snapshot schedules; trying again");
	RB_FOREACH (schedule, schedule_tree, &schedules->all)
		if (!schedule->is_busy && schedule->look_ms < next_ms)
			next_ms = schedule->look_ms;
	if (!RB_EMPTY(&schedules->all))
		rearm(schedules, next_ms - now_ms);
	return 0;
}

static void rearm(struct schedules *schedules, int64_t delay_ms)
{
	uint64_t delay_us =
		(uint64_t)(delay_ms < SCHEDULE_LOOK_MIN_MS ? SCHEDULE_LOOK_MIN_MS : delay_ms) * USEC_PER_MSEC;
	uint64_t at_us = clock_monotonic_us() + delay_us;

	if (schedules->server->is_ending || (schedules->timer && schedules->timer_us <= at_us))
		return;
	schedules->timer_us = at_us;
	if (wakeup_arm(schedules->server->event, &schedules->timer, delay_us, on_look, schedules, NULL) !=
	    STATUS_OK)
		log_line(LOG_ERR, "cannot look at snapshot schedules, ignoring");
}

/* --- which there are --- */

/* @key PREFIX_VOLUME_DETAIL NAMESPACE/ID. A look at an entry without a schedule forgets it. */
static void note(struct schedules *schedules, const char *key, int64_t look_ms)
{
	const Holdfast__V1__VolumeDetail *detail = records_get(&schedules->server->state.records, key);
	char name[OBJECT_KEY_SIZE];
	struct schedule *schedule;
	char *slash;

	(void)str_copy(name, sizeof(name), key + strlen(PREFIX_VOLUME_DETAIL));
	slash = strchr(name, '/');
	if (!detail || !detail->snapshots || !slash)
		return;
	*slash = '\0';
	note_clock(schedules, clock_realtime_ms());
	schedule = find(schedules, name, slash + 1);
	if (!schedule) {
		schedule = calloc(1, sizeof(*schedule));
		if (!schedule || str_copy(schedule->namespace, sizeof(schedule->namespace), name) < 0 ||
		    str_copy(schedule->id, sizeof(schedule->id), slash + 1) < 0) {
			free(schedule);
			log_line(LOG_ERR, "out of memory for the snapshot schedule of volume %s", slash + 1);
			return;
		}
		RB_INSERT(schedule_tree, &schedules->all, schedule);
		schedules->count.schedules++;
		schedule->look_ms = look_ms;
	} else if (!schedule->error && schedule->look_ms > look_ms) {
		schedule->look_ms = look_ms;
	}
	rearm(schedules, SCHEDULE_LOOK_MIN_MS);
}

void schedules_note_durable(struct server *server, struct change_object *objects, size_t n, uint64_t revision)
{
	for (size_t i = 0; server->schedules && i < n; i++)
		if (objects[i].kind == OBJECT_RECORD && str_starts_with(objects[i].key, PREFIX_VOLUME_DETAIL))
			note(server->schedules, objects[i].key, clock_realtime_ms());
}

/* @ret to be freed by the caller; NULL: the volume has no schedule. */
static bool show_schedule(struct server *server, const struct volume_entry *entry,
			  Holdfast__V1__SnapshotScheduleState **ret)
{
	const Holdfast__V1__SnapshotSchedule *policy = policy_of(server, &entry->volume);
	Holdfast__V1__SnapshotScheduleState state = HOLDFAST__V1__SNAPSHOT_SCHEDULE_STATE__INIT;
	cleanup(made_release) struct made made = {.n = 0};
	struct schedule *schedule;
	struct schedule_step step;

	*ret = NULL;
	if (!policy || !server->schedules)
		return true;
	if (!read_made(server, &entry->volume, &made))
		return false;
	schedule = find(server->schedules, entry->namespace, entry->id);
	step = next_step(schedule, policy, &made);
	for (size_t i = 0; i < made.n; i++)
		if (made.snapshots[i].state == SCHEDULE_SNAPSHOT_READY) {
			state.last_ms = made.snapshots[i].slot_ms;
			state.kept++;
		}
	state.next_ms = step.action == SCHEDULE_WAIT || !schedule ? step.time_ms : schedule->look_ms;
	if (schedule && schedule->error)
		state.error = schedule->error;
	*ret = (Holdfast__V1__SnapshotScheduleState *)(void *)message_copy(&state.base);
	return *ret != NULL;
}

struct schedules_count schedules_count(const struct server *server)
{
	return server->schedules ? server->schedules->count : (struct schedules_count){.schedules = 0};
}

bool schedules_warning(const struct server *server, char ret[static SCHEDULES_WARNING_SIZE])
{
	struct schedules *schedules = server->schedules;
	struct schedule *schedule;

	if (!schedules || schedules->count.failing == 0)
		return false;
	RB_FOREACH (schedule, schedule_tree, &schedules->all)
		if (schedule->error)
			break;
	if (!schedule)
		return false;
	(void)str_format(
		ret, SCHEDULES_WARNING_SIZE,
		"scheduled snapshots fail of %llu volumes, the first is %s/%s: %.400s. The last good "
		"snapshots are kept: holdfast volume events %s%s%s",
		(unsigned long long)schedules->count.failing, schedule->namespace, schedule->id,
		schedule->error, schedule->id, NAMESPACE_OPTION(schedule->namespace));
	return true;
}

enum status schedules_new(struct server *server, struct schedules **ret, struct error *err)
{
	struct schedules *schedules = calloc(1, sizeof(*schedules));
	struct record_entry *entry;

	if (!schedules)
		return error_no_memory(err, "snapshot schedules");
	schedules->server = server;
	schedules->ahead_ms = ahead_ms();
	RB_INIT(&schedules->all);
	LIST_INIT(&schedules->busy);
	*ret = schedules;
	server->show_schedule = show_schedule;
	for (entry = records_from(&server->state.records, PREFIX_VOLUME_DETAIL);
	     entry && str_starts_with(entry->key, PREFIX_VOLUME_DETAIL); entry = records_next(entry))
		note(schedules, entry->key, clock_realtime_ms() + SCHEDULE_GRACE_MS);
	return STATUS_OK;
}

void schedules_free(struct schedules *schedules)
{
	struct schedule *schedule;

	if (!schedules)
		return;
	while ((schedule = RB_MIN(schedule_tree, &schedules->all)))
		forget(schedules, schedule);
	wakeup_disarm(&schedules->timer);
	free(schedules);
}
