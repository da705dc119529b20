/* SPDX-License-Identifier: Apache-2.0 */
/* Fences that the server begins by itself. */

#include "fence/loss.h"

#include "server.h"

#include "access/access.h"
#include "access/answer.h"
#include "access/audit.h"
#include "access/caller.h"
#include "alloc/options.h"
#include "api/watch.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "claim/attest_record.h"
#include "fence/fences.h"
#include "log/log.h"
#include "model/fence.h"
#include "model/node_loss.h"
#include "node/lookup.h"
#include "rpc/wakeup.h"
#include "state/keys.h"
#include "state/records.h"
#include "volume/store.h"

#include <assert.h>
#include <holdfast/v1/fences.pb-c.h>
#include <holdfast/v1/jobs.pb-c.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/queue.h>

#define WHAT_SET "Fences.SetAutomatic"

enum { REASON_SIZE = 512, POLICY_SIZE = 192, MINUTE_MS = 60000 };

struct lost {
	LIST_ENTRY(lost) of_losses;
	char node_id[NODE_ID_MAX + 1];
};

LIST_HEAD(lost_list, lost);

struct losses {
	struct server *server;
	sd_event_source *timer; /* owned; while a node is lost */
	struct lost_list list;
};

/* The fence that a volume wants of a lost node. */
struct wish {
	const struct volume_entry *volume; /* that is the first to want it */
	const char *plugin_id;		   /* whose storage refuses the node; "": a power fence */
	const struct alloc *holder;	   /* whose block counts; NULL: that of the volume */
	int64_t after_ms;
};

static const Holdfast__V1__OnNodeLoss *read_group(struct server *server, const struct alloc *alloc)
{
	const Holdfast__V1__Job *job = records_job(&server->state.records, alloc->namespace, alloc->job_id);

	for (size_t i = 0; job && i < job->n_groups; i++)
		if (str_eq(job->groups[i]->name, alloc->job_group))
			return job->groups[i]->on_node_loss;
	return NULL;
}

/* Returns the block of the claim's group, in the present version of its job, or of its allocation. */
static const Holdfast__V1__OnNodeLoss *read_holder(struct server *server, const struct claim *claim,
						   const struct alloc **ret)
{
	const struct alloc_entry *entry = state_alloc_of(&server->state, claim);

	*ret = entry ? &entry->alloc : NULL;
	if (!entry)
		return NULL;
	return entry->alloc.job_id[0] != '\0' ? read_group(server, &entry->alloc)
					      : alloc_options_node_loss(&server->state, entry->id);
}

/* Reads the fence that a claim's volume or holder wants. Returns false if no fence is wanted, or the claim
 * has its evidence. */
static bool read_wish(struct server *server, const struct node_entry *node, const struct claim_entry *entry,
		      struct wish *ret)
{
	const Holdfast__V1__OnNodeLoss *loss, *of_holder;
	const Holdfast__V1__VolumeDetail *detail;
	const struct alloc *holder;

	if (entry->claim.state > CLAIM_UNPUBLISHING ||
	    !str_eq(entry->claim.boot_id, node_own_boot(&node->node)))
		return false;
	detail = volume_detail_of(server, &entry->volume->volume);
	of_holder = read_holder(server, &entry->claim, &holder);
	loss = node_loss_choose(detail ? detail->on_node_loss : NULL, of_holder,
				entry->volume->volume.type != VOLUME_CSI);
	if (!loss)
		return false;
	*ret = (struct wish){.volume = entry->volume,
			     .plugin_id = "",
			     .holder = loss == of_holder ? holder : NULL,
			     .after_ms = (int64_t)loss->after_ms};
	if (loss->do_ == HOLDFAST__V1__NODE_LOSS_ACTION__NODE_LOSS_ACTION_NETWORK_FENCE)
		ret->plugin_id = entry->claim.plugin_id;
	return ret->plugin_id[0] != '\0' ||
	       !entry->claim.other_machine; /* a power fence frees no such claim */
}

/* The wish for the fence that comes next after that for @after in the order of plugins; NULL: the first,
 * which is the power fence. Costs the number of the node's claims. */
static bool next_wish(struct server *server, const struct node_entry *node, const char *after,
		      struct wish *ret)
{
	const struct claim_entry *entry;
	struct wish wish;
	bool is_found = false;

	LIST_FOREACH (entry, &node->claims, of_node) {
		int order;

		if (!read_wish(server, node, entry, &wish) || (after && strcmp(wish.plugin_id, after) <= 0))
			continue;
		order = is_found ? strcmp(wish.plugin_id, ret->plugin_id) : -1;
		if (order > 0 || (order == 0 && wish.after_ms >= ret->after_ms))
			continue;
		*ret = wish;
		is_found = true;
	}
	return is_found;
}

/* "volume", "job db, group pg", "allocation UUID" */
static const char *name_policy(const struct wish *wish, char ret[static POLICY_SIZE])
{
	if (!wish->holder)
		str_copy_text(ret, POLICY_SIZE, "volume");
	else if (wish->holder->job_id[0] != '\0')
		(void)str_format(ret, POLICY_SIZE, "job %s, group %s", wish->holder->job_id,
				 wish->holder->job_group);
	else
		(void)str_format(ret, POLICY_SIZE, "allocation %s", wish->holder->id);
	return ret;
}

static const Holdfast__V1__FencingSwitch *find_switch(struct server *server)
{
	return records_get(&server->state.records, KEY_FENCING);
}

static void add_last_fence(struct server *server, const struct node_entry *node, const char *plugin_id,
			   struct fence_auto_facts *facts)
{
	const Holdfast__V1__Fence *fence = fences_find(server, node->id, plugin_id);
	struct fence_answer told;

	facts->since_last_ms = -1;
	if (!fence || !str_eq(fence->boot_id, node_own_boot(&node->node)))
		return;
	told = (struct fence_answer){.off = (enum fence_outcome)fence->off,
				     .status = (enum fence_outcome)fence->status,
				     .off_ms = fence->off_ms,
				     .status_ms = fence->status_ms,
				     .created_ms = fence->create_time_ms,
				     .answered_ms = fence->answer_time_ms};
	facts->is_open = fence_is_open((enum fence_state)fence->state);
	facts->was_contradicted = plugin_id[0] == '\0' && fence_judge(&told) == FENCE_EVENT_PROVED &&
				  (fence->state == HOLDFAST__V1__FENCE_STATE__FENCE_STATE_FAILED
					   ? !fence->doubted
					   : node->is_awaited || fences_heard_after(server, node, fence));
	facts->since_last_ms = clock_realtime_ms() - fence->modify_time_ms;
}

static bool can_fence(struct server *server, const struct node_entry *node, const char *plugin_id)
{
	if (plugin_id[0] != '\0')
		return fences_check_network(server, node, plugin_id, NULL) == STATUS_OK;
	return server->can_power_fence && server->can_power_fence(server, node, node_own_boot(&node->node));
}

/* Returns the time for which this server leads and misses the node: a clock that was set, or that of another
 * server, makes no absence longer or shorter. */
static int64_t away_ms(const struct server *server, const struct node_entry *node)
{
	int64_t missed = (int64_t)((clock_monotonic_us() - node->gone_us) / USEC_PER_MSEC);

	return node_is_connected(node) ? 0 : MIN(missed, nodes_led_ms(server));
}

static struct fence_auto_facts facts_of(const struct losses *losses, const struct node_entry *node,
					const struct wish *wish)
{
	struct server *server = losses->server;
	const Holdfast__V1__FencingSwitch *fencing = find_switch(server);
	struct fence_auto_facts facts = {
		.is_connected = node_is_connected(node),
		.has_expired =
			node->certificate_expires_ms > 0 &&
			MIN(nodes_disconnected_ms(server, node),
			    clock_realtime_ms() - away_ms(server, node)) >= node->certificate_expires_ms,
		.is_switched_off = fencing && fencing->off,
		.has_fencer = can_fence(server, node, wish->plugin_id),
		.away_ms = away_ms(server, node),
		.after_ms = wish->after_ms,
		.led_ms = nodes_led_ms(server),
		.grace_ms = nodes_grace_ms(server),
		.n_connected = server->state.n_connected,
		.n_nodes = server->state.n_nodes,
		.retry_ms = LOSS_RETRY_MS,
		.n_last_minute = fences_count_automatic(server, MINUTE_MS),
		.max_per_minute = server->config.fence_max_per_minute,
	};

	add_last_fence(server, node, wish->plugin_id, &facts);
	return facts;
}

static void begin(struct losses *losses, const struct node_entry *node, const struct wish *wish,
		  int64_t away_ms)
{
	char reason[REASON_SIZE], away[CLOCK_TEXT_SIZE], policy[POLICY_SIZE];
	struct error err;

	(void)str_format(reason, sizeof(reason), "away for %s, on_node_loss of %s%svolume %s/%s",
			 clock_format_duration((uint64_t)away_ms * USEC_PER_MSEC, away),
			 wish->holder ? name_policy(wish, policy) : "", wish->holder ? " for " : "",
			 wish->volume->namespace, wish->volume->id);
	if (fences_begin(losses->server, node, wish->plugin_id, reason, &err) != STATUS_OK)
		log_ctx(LOG_ERR, &(struct log_ctx){.node = node->id, .op = "fence", .err = &err},
			"cannot begin the fence of a lost node; trying again");
}

/* Returns false if it has stopped being lost. */
static bool look_at(struct losses *losses, const char *node_id)
{
	const struct node_entry *node = state_node(&losses->server->state, node_id);
	const char *after = NULL;
	struct wish wish;

	if (!node || !node_is_registered(node) || node_is_connected(node))
		return false;
	for (; next_wish(losses->server, node, after, &wish); after = wish.plugin_id) {
		const struct fence_auto_facts facts = facts_of(losses, node, &wish);

		if (fence_auto(&facts) == FENCE_AUTO_NOW)
			begin(losses, node, &wish, facts.away_ms);
	}
	return after != NULL;
}

static int on_look(sd_event_source *source, uint64_t usec, void *userdata);

static void rearm(struct losses *losses)
{
	if (losses->timer || LIST_EMPTY(&losses->list) || losses->server->is_ending)
		return;
	if (wakeup_arm(losses->server->event, &losses->timer, LOSS_LOOK_MS * USEC_PER_MSEC, on_look, losses,
		       NULL) != STATUS_OK)
		log_line(LOG_ERR, "cannot look at lost nodes, ignoring");
}

static int on_look(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct losses *losses = userdata;
	struct lost *lost, *next;

	wakeup_disarm(&losses->timer);
	for (lost = LIST_FIRST(&losses->list); lost; lost = next) {
		next = LIST_NEXT(lost, of_losses);
		if (look_at(losses, lost->node_id))
			continue;
		LIST_REMOVE(lost, of_losses);
		free(lost);
	}
	rearm(losses);
	return 0;
}

/* The node may be lost: it is looked at until it is not. */
static void note(struct losses *losses, const char *node_id)
{
	const struct node_entry *node = state_node(&losses->server->state, node_id);
	struct lost *lost;
	struct wish wish;

	if (!node || node_is_connected(node) || !next_wish(losses->server, node, NULL, &wish))
		return;
	LIST_FOREACH (lost, &losses->list, of_losses)
		if (str_eq(lost->node_id, node_id))
			return;
	lost = calloc(1, sizeof(*lost));
	if (!lost) {
		log_line(LOG_ERR, "out of memory for a lost node; it is not fenced by itself");
		return;
	}
	(void)str_copy(lost->node_id, sizeof(lost->node_id), node_id);
	LIST_INSERT_HEAD(&losses->list, lost, of_losses);
	rearm(losses);
}

static void note_volume(struct losses *losses, const char *key)
{
	char name[OBJECT_KEY_SIZE];
	const struct volume_entry *volume;
	const struct claim_entry *entry;
	char *slash;

	(void)str_copy(name, sizeof(name), key + strlen(PREFIX_VOLUME_DETAIL));
	slash = strchr(name, '/');
	if (!slash)
		return;
	*slash = '\0';
	volume = state_volume(&losses->server->state, name, slash + 1);
	if (volume)
		LIST_FOREACH (entry, &volume->claims, of_volume)
			note(losses, entry->claim.node_id);
}

static void note_all(struct losses *losses)
{
	struct node_entry *node;

	for (node = state_node_from(&losses->server->state, ""); node; node = state_node_next(node))
		note(losses, node->id);
}

static bool job_wants_fence(const Holdfast__V1__Job *job)
{
	bool is_wanted = false;

	for (size_t i = 0; i < job->n_groups; i++)
		is_wanted |= node_loss_fences(job->groups[i]->on_node_loss);
	return is_wanted;
}

/* Does this volume, allocation or job want a fence? */
static bool wants_fence(const char *key, const void *message)
{
	if (str_starts_with(key, PREFIX_VOLUME_DETAIL))
		return node_loss_fences(((const Holdfast__V1__VolumeDetail *)message)->on_node_loss);
	if (str_starts_with(key, PREFIX_ALLOC_OPTIONS))
		return node_loss_fences(((const Holdfast__V1__AllocationOptions *)message)->on_node_loss);
	return str_starts_with(key, PREFIX_JOB) && job_wants_fence(message);
}

void losses_note_durable(struct server *server, struct change_object *objects, size_t n, uint64_t revision)
{
	for (size_t i = 0; server->losses && i < n; i++) {
		const struct node *node = objects[i].value;
		const struct record *record = objects[i].value;

		if (objects[i].kind == OBJECT_NODE)
			note(server->losses, node->id);
		else if (objects[i].kind == OBJECT_RECORD && !objects[i].is_deletion &&
			 str_starts_with(objects[i].key, PREFIX_JOB) &&
			 job_wants_fence((const void *)record->message))
			note_all(server->losses); /* some are lost already */
		else if (objects[i].kind == OBJECT_RECORD &&
			 str_starts_with(objects[i].key, PREFIX_VOLUME_DETAIL))
			note_volume(server->losses, objects[i].key);
	}
}

/* --- the switch --- */

static enum status handle_set(struct server *server, struct rpc_call *call,
			      const Holdfast__V1__SetAutomaticRequest *request, struct error *err)
{
	Holdfast__V1__SetAutomaticResponse response = HOLDFAST__V1__SET_AUTOMATIC_RESPONSE__INIT;
	Holdfast__V1__FencingSwitch fencing = HOLDFAST__V1__FENCING_SWITCH__INIT;
	cleanup(change_release) struct change change = CHANGE_INIT;
	char detail[EVIDENCE_DETAIL_MAX + 1], who[ACCESS_WHO_SIZE];

	TRY(attest_detail(server, call, "reason", request->reason, detail, err));
	fencing.off = request->off;
	fencing.by = access_who(server, call, who);
	fencing.reason = request->reason;
	fencing.time_ms = clock_realtime_ms();
	change_put_record(&change, KEY_FENCING, &fencing.base);
	audit_write(server, &change, call, WHAT_SET, request->off ? "off" : "on", request->reason);
	return answer_changed(server, &change, call, message_copy(&response.base), err);
}

DEFINE_WRITE_METHOD(losses_handle_set, Holdfast__V1__SetAutomaticRequest, WHAT_SET, handle_set)

/* --- the plan --- */

static bool fill_plan(const struct losses *losses, const struct node_entry *node, const struct wish *wish,
		      Holdfast__V1__FencePlan *ret)
{
	const struct fence_auto_facts facts = facts_of(losses, node, wish);
	enum fence_verdict_auto verdict = fence_auto(&facts);
	struct error why = {.msg = ""};
	char policy[POLICY_SIZE];

	if (verdict == FENCE_AUTO_NO_FENCER && wish->plugin_id[0] != '\0')
		(void)fences_check_network(losses->server, node, wish->plugin_id, &why);
	ret->node_id = strdup(node->id);
	ret->volume_id = strdup(wish->volume->id);
	ret->namespace_ = strdup(wish->volume->namespace);
	ret->plugin_id = strdup(wish->plugin_id);
	ret->policy = strdup(name_policy(wish, policy));
	ret->away_ms = facts.away_ms;
	ret->after_ms = wish->after_ms;
	ret->now = verdict == FENCE_AUTO_NOW;
	ret->verdict = strdup(why.msg[0] != '\0' ? why.msg : fence_auto_text(verdict));
	return ret->node_id && ret->volume_id && ret->namespace_ && ret->plugin_id && ret->policy &&
	       ret->verdict;
}

static bool add_plans_of(struct losses *losses, const struct node_entry *node,
			 Holdfast__V1__PlanFencesResponse *response)
{
	const char *after = NULL;
	struct wish wish;

	for (; next_wish(losses->server, node, after, &wish); after = wish.plugin_id) {
		Holdfast__V1__FencePlan *plan;

		if (response->n_plans == LOSS_PLANS_MAX)
			return true;
		plan = malloc(sizeof(*plan));
		if (!plan)
			return false;
		holdfast__v1__fence_plan__init(plan);
		response->plans[response->n_plans++] = plan;
		if (!fill_plan(losses, node, &wish, plan))
			return false;
	}
	return true;
}

static bool add_plans(struct losses *losses, Holdfast__V1__PlanFencesResponse *response)
{
	const struct lost *lost;

	response->plans = calloc(LOSS_PLANS_MAX, sizeof(Holdfast__V1__FencePlan *));
	if (!response->plans)
		return false;
	LIST_FOREACH (lost, &losses->list, of_losses) {
		const struct node_entry *node = state_node(&losses->server->state, lost->node_id);

		if (node && !add_plans_of(losses, node, response))
			return false;
	}
	return true;
}

/* A volume, and the job or allocation that holds it, are named to those who may see them. */
static void hide_volumes(struct server *server, const struct rpc_call *call,
			 Holdfast__V1__PlanFencesResponse *response)
{
	struct access_scope scope;
	bool has_any = access_scope_init(server, call, ACCESS_VOLUME_READ, &scope, NULL) == STATUS_OK;

	for (size_t i = 0; i < response->n_plans; i++) {
		Holdfast__V1__FencePlan *plan = response->plans[i];

		assert(plan);
		if (has_any && access_scope_has(&scope, plan->namespace_))
			continue;
		plan->namespace_[0] = plan->volume_id[0] = '\0';
		plan->policy[strcspn(plan->policy, " ")] = '\0'; /* "job", "allocation" */
	}
}

static enum status handle_plan(struct server *server, struct rpc_call *call, const ProtobufCMessage *request,
			       struct error *err)
{
	Holdfast__V1__PlanFencesResponse *response = malloc(sizeof(*response));
	const Holdfast__V1__FencingSwitch *fencing = find_switch(server);

	if (!response)
		return error_no_memory(err, "a plan of fences");
	holdfast__v1__plan_fences_response__init(response);
	response->max_per_minute = server->config.fence_max_per_minute;
	if (fencing)
		response->switch_ = (Holdfast__V1__FencingSwitch *)(void *)message_copy(&fencing->base);
	if ((fencing && !response->switch_) || !add_plans(server->losses, response)) {
		holdfast__v1__plan_fences_response__free_unpacked(response, NULL);
		return error_no_memory(err, "a plan of fences");
	}
	hide_volumes(server, call, response);
	answer_durable(server, call, &response->base);
	return STATUS_OK;
}

static const struct read_method plan_method = {.handle = handle_plan};
DEFINE_READ_METHOD(losses_handle_plan, plan_method)

/* --- the part --- */

enum status losses_new(struct server *server, struct losses **ret, struct error *err)
{
	struct losses *losses = calloc(1, sizeof(*losses));
	struct record_entry *entry;

	if (!losses)
		return error_no_memory(err, "lost nodes");
	losses->server = server;
	LIST_INIT(&losses->list);
	*ret = losses;
	entry = records_from(&server->state.records, "");
	while (entry && !wants_fence(entry->key, entry->record.message))
		entry = records_next(entry);
	if (entry) /* a look at each claim of each node is for these only */
		note_all(losses);
	return STATUS_OK;
}

void losses_free(struct losses *losses)
{
	struct lost *lost;

	if (!losses)
		return;
	while ((lost = LIST_FIRST(&losses->list))) {
		LIST_REMOVE(lost, of_losses);
		free(lost);
	}
	wakeup_disarm(&losses->timer);
	free(losses);
}
