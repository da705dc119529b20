/* SPDX-License-Identifier: Apache-2.0 */
#include "access/audit.h"

#include "server.h"

#include "access/caller.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/join.h"
#include "base/rate_counted.h"
#include "base/str.h"
#include "log/log.h"
#include "rpc/pack.h"
#include "state/claim_log.h"
#include "state/keys.h"
#include "state/records.h"
#include "state/text.h"

#include <endian.h>
#include <holdfast/v1/operator.pb-c.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

enum { EVENT_COST_US = 60000000, EVENTS_BURST = 10 }; /* of one node and kind: then one a minute */

enum {
	TIMER_ACCURACY_US = 1000000,
	WORD_OBJECT_SIZE = 512,
	CUT_SIZE = sizeof("... (18446744073709551615 bytes, SHA-256 )") + 2L * SHA256_DIGEST_LENGTH,
};

/* A record's text, cut and cleaned; each borrowed for the call. */
struct entry {
	const char *who;
	const char *vouched_by; /* NULL, "": not vouched for */
	const char *address;
	const char *what;
	const char *object;
	const char *why;
	enum status code;
	const char *message;
	uint64_t left_out;
};

/* A record and the texts that it names, as one block of memory. */
struct staged {
	Holdfast__V1__AuditRecord record;
	char who[AUDIT_WHO_SIZE];
	char vouched_by[AUDIT_WHO_SIZE];
	char address[RPC_ADDRESS_SIZE];
	char what[AUDIT_WHO_SIZE];
	char object[AUDIT_OBJECT_SIZE];
	char why[AUDIT_WHY_SIZE];
	char message[AUDIT_MESSAGE_SIZE];
};

static char *clean(char *buffer, size_t size, const char *text)
{
	str_copy_text(buffer, size, text ? text : "");
	return buffer;
}

/* The same for a text that a caller can make long: a cut one ends with the length and the hash of the whole,
 * so that the record shows the cut, and a copy of the text can be compared with it. */
static char *clean_long(const struct server *server, char *buffer, size_t size, const char *text)
{
	uint8_t sha256[SHA256_DIGEST_LENGTH] = {0};
	char digits[2 * sizeof(sha256) + 1], end[CUT_SIZE];
	size_t n = text ? strlen(text) : 0, n_end;

	if (n < size)
		return clean(buffer, size, text);
	(void)EVP_Digest(text, n, sha256, NULL, server->sha256, NULL);
	hex_encode(digits, sha256, sizeof(sha256));
	(void)str_format(end, sizeof(end), "... (%zu bytes, SHA-256 %s)", n, digits);
	n_end = strlen(end);
	(void)clean(buffer, size - n_end, text);
	memcpy(buffer + strlen(buffer), end, n_end + 1);
	return buffer;
}

/* Owned by the caller, for free(); NULL when memory is short. */
static Holdfast__V1__AuditRecord *new_record(const struct server *server, const struct entry *entry)
{
	struct staged *staged = malloc(sizeof(*staged));
	Holdfast__V1__AuditRecord *record;

	if (!staged)
		return NULL;
	record = &staged->record;
	holdfast__v1__audit_record__init(record);
	record->time_ms = clock_realtime_ms();
	record->who = clean(staged->who, sizeof(staged->who), entry->who);
	record->vouched_by = clean(staged->vouched_by, sizeof(staged->vouched_by), entry->vouched_by);
	record->address = clean(staged->address, sizeof(staged->address), entry->address);
	record->what = clean(staged->what, sizeof(staged->what), entry->what);
	record->object = clean_long(server, staged->object, sizeof(staged->object), entry->object);
	record->why = clean_long(server, staged->why, sizeof(staged->why), entry->why);
	record->message = clean_long(server, staged->message, sizeof(staged->message), entry->message);
	record->code = (int32_t)entry->code;
	record->left_out = entry->left_out;
	return record; /* the first member */
}

static void log_entry(const struct entry *entry, const struct log_ctx *about)
{
	struct log_ctx ctx = about ? *about : (struct log_ctx){.op = entry->what};
	bool says_why = entry->why && entry->why[0] != '\0';
	bool is_vouched = entry->vouched_by && entry->vouched_by[0] != '\0';

	ctx.peer = entry->address;
	log_ctx(LOG_NOTICE, &ctx, "%s by %s%s%s: %s%s%s", entry->what, entry->who,
		is_vouched ? " through " : "", is_vouched ? entry->vouched_by : "", entry->object,
		says_why ? ": " : "", says_why ? entry->why : "");
}

/* Room for the names of an entry's caller. */
struct names {
	char who[ACCESS_WHO_SIZE];
	char vouched_by[ACCESS_WHO_SIZE];
};

/* @call NULL: it is the server that did it. */
static void name_caller(struct server *server, const struct rpc_call *call, struct names *names,
			struct entry *entry)
{
	entry->who = call ? access_who(server, call, names->who) : "server";
	entry->vouched_by = call ? access_vouched_by(server, call, names->vouched_by) : NULL;
	entry->address = call ? rpc_call_peer(call)->address : NULL;
}

void audit_silent(struct server *server, struct change *change, const struct rpc_call *call, const char *what,
		  const char *object, const char *why)
{
	struct entry entry = {.what = what, .object = object, .why = why};
	struct names names;

	name_caller(server, call, &names, &entry);
	change_take_audit(change, new_record(server, &entry));
}

void audit_node_event_about(struct server *server, struct change *change, enum node_event event,
			    const char *node_id, const char *object, const char *why)
{
	static const struct {
		const char *name;
		bool has_line; /* of its own in the log: it is not repeated */
	} events[] = {[NODE_EVENT_CONNECT] = {"Nodes.Connect", true},
		      [NODE_EVENT_DISCONNECT] = {"Nodes.Disconnect", true},
		      [NODE_EVENT_DISK] = {"Nodes.Disk", true},
		      [NODE_EVENT_DOUBT] = {"Nodes.Doubt", false},
		      [NODE_EVENT_REPORT] = {"Nodes.Report", false},
		      [NODE_EVENT_PLUGIN] = {"Nodes.Plugin", false},
		      [NODE_EVENT_DRIVER] = {"Nodes.Driver", false},
		      [NODE_EVENT_CERTIFICATE] = {"Nodes.Certificate", false},
		      [NODE_EVENT_USAGE] = {"Volumes.Usage", true}};
	struct node_entry *entry = state_node(&server->state, node_id); /* NULL: a new node, once */
	char text[AUDIT_WHY_SIZE], more[RATE_MORE_SIZE] = "";

	_Static_assert(ARRAY_SIZE(events) == NODE_EVENT_N, "each event has a name");
	if (entry && !rate_take_counted(&entry->events[event], EVENT_COST_US, EVENTS_BURST,
					clock_monotonic_us(), more))
		return;
	(void)str_format(text, sizeof(text), "%.*s%s", AUDIT_WHY_SIZE - RATE_MORE_SIZE, why, more);
	if (events[event].has_line)
		audit_silent(server, change, NULL, events[event].name, object, text);
	else
		audit_own(server, change, events[event].name, object, text[0] != '\0' ? text : NULL);
}

void audit_node_event(struct server *server, struct change *change, enum node_event event,
		      const char *node_id, const char *why)
{
	char object[sizeof("node ") + NODE_ID_MAX];

	(void)str_format(object, sizeof(object), "node %s", node_id);
	audit_node_event_about(server, change, event, node_id, object, why);
}

void audit_about(struct server *server, struct change *change, const struct rpc_call *call, const char *what,
		 const char *object, const char *why, const struct log_ctx *about)
{
	struct entry entry = {.what = what, .object = object, .why = why};
	Holdfast__V1__AuditRecord *record;
	struct names names;

	name_caller(server, call, &names, &entry);
	record = new_record(server, &entry);
	if (record) { /* the log has what the record has */
		entry.object = record->object;
		entry.why = record->why;
	}
	log_entry(&entry, about);
	change_take_audit(change, record);
}

void audit_write(struct server *server, struct change *change, const struct rpc_call *call, const char *what,
		 const char *object, const char *why)
{
	audit_about(server, change, call, what, object, why, NULL);
}

void audit_own(struct server *server, struct change *change, const char *what, const char *object,
	       const char *why)
{
	audit_about(server, change, NULL, what, object, why, NULL);
}

void audit_word(struct server *server, struct change *change, const struct rpc_call *call, const char *what,
		const struct claim *claim, const char *why)
{
	char object[WORD_OBJECT_SIZE];
	struct claim_log log;

	(void)str_format(object, sizeof(object), "volume %s/%s, claim %s, node %s", claim->namespace,
			 claim->volume_id, claim->id, claim->node_id);
	audit_about(server, change, call, what, object, why,
		    claim_log(&log, claim, "attest", LOG_EVENT_OPERATOR_WORD, NULL));
}

/* --- the chain --- */

Holdfast__V1__AuditHead audit_head(struct server *server)
{
	const Holdfast__V1__AuditHead *stored = records_get(&server->state.records, KEY_AUDIT_HEAD);
	Holdfast__V1__AuditHead head = HOLDFAST__V1__AUDIT_HEAD__INIT;

	if (stored)
		head = *stored;
	else
		head.first = 1;
	return head;
}

/* Sixteen hex digits, so that the keys are in the order of the numbers. */
static void make_key(char ret[static OBJECT_KEY_SIZE], uint64_t sequence)
{
	const uint64_t big_endian = htobe64(sequence);
	char digits[2 * sizeof(big_endian) + 1];

	hex_encode(digits, &big_endian, sizeof(big_endian));
	(void)str_join(ret, OBJECT_KEY_SIZE, PREFIX_AUDIT, digits);
}

/* @record becomes the last one of the chain that @head ends, whose hash is in @sha256. */
static enum status append(const struct server *server, struct change *change,
			  Holdfast__V1__AuditRecord *record, Holdfast__V1__AuditHead *head,
			  uint8_t sha256[static SHA256_DIGEST_LENGTH])
{
	char key[OBJECT_KEY_SIZE];
	uint8_t *bytes;
	size_t len = 0;

	record->sequence = head->sequence + 1;
	record->previous_sha256 = head->sha256; /* borrowed until it is packed */
	bytes = pack_message(&record->base, 0, &len);
	if (bytes) {
		make_key(key, record->sequence);
		head->sequence = record->sequence;
		(void)EVP_Digest(bytes, len, sha256, NULL, server->sha256, NULL);
		change_put_packed(change, key, bytes, len, text_of(key, &record->base));
		head->sha256 = (ProtobufCBinaryData){.len = SHA256_DIGEST_LENGTH, .data = sha256};
	}
	record->previous_sha256 = (ProtobufCBinaryData){0};
	return bytes ? change->status : STATUS_RESOURCE_EXHAUSTED;
}

void audit_seal(struct server *server, struct change *change)
{
	Holdfast__V1__AuditHead head = audit_head(server);
	uint8_t sha256[SHA256_DIGEST_LENGTH];
	enum status status = STATUS_OK;

	head.epoch = state_epoch(&server->state);
	if (change->audit_first > 0)
		head.first = change->audit_first;
	for (size_t i = 0; i < change->n_audit && status == STATUS_OK; i++)
		status = append(server, change, change->audit[i], &head, sha256);
	if (status == STATUS_OK)
		change_put_record(change, KEY_AUDIT_HEAD, &head.base);
	else if (change->status == STATUS_OK)
		change->status = error_no_memory(&change->error, "the audit record");
}

/* --- refusals --- */

static void set_rate(struct rate *rate, uint64_t cost_us, uint64_t burst)
{
	*rate = (struct rate){.cost_us = cost_us, .most_us = burst * cost_us};
}

static struct audit_caller *caller_of(struct audit_limits *limits, const char *who, uint64_t now_us)
{
	struct audit_caller *oldest = &limits->callers[0];

	for (size_t i = 0; i < AUDIT_CALLERS; i++) {
		struct audit_caller *caller = &limits->callers[i];

		if (str_eq(caller->who, who))
			return caller;
		if (caller->used_us < oldest->used_us)
			oldest = caller;
	}
	limits->left_out += oldest->left_out;
	*oldest = (struct audit_caller){.left_out = 0};
	(void)str_copy(oldest->who, sizeof(oldest->who), who);
	set_rate(&oldest->rate, AUDIT_REFUSAL_COST_US, AUDIT_REFUSALS_BURST);
	return oldest;
}

static bool may_record(struct audit_limits *limits, struct audit_caller *caller, uint64_t now_us)
{
	if (!limits->is_set)
		set_rate(&limits->rate, AUDIT_ALL_REFUSALS_COST_US, AUDIT_ALL_REFUSALS_BURST);
	limits->is_set = true;
	return rate_take(&caller->rate, now_us) && rate_take(&limits->rate, now_us);
}

static void commit_alone(struct server *server, const struct entry *entry)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct error err;

	change_take_audit(&change, new_record(server, entry));
	if (change_commit(server, &change, NULL, NULL, &err) != STATUS_OK)
		log_ctx(LOG_ERR, &(struct log_ctx){.err = &err}, "a refusal could not be recorded");
}

/* Audits the count of suppressed refusals when no further refusal does. */
static int on_suppressed(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct server *server = userdata;
	struct audit_limits *limits = server->audit;

	limits->timer = sd_event_source_disable_unref(limits->timer);
	for (size_t i = 0; i < AUDIT_CALLERS; i++) {
		struct audit_caller *caller = &limits->callers[i];

		if (caller->left_out > 0)
			commit_alone(server, &(struct entry){.who = caller->who,
							     .what = "refusals",
							     .code = STATUS_PERMISSION_DENIED,
							     .left_out = caller->left_out});
		caller->left_out = 0;
	}
	if (limits->left_out > 0)
		commit_alone(server, &(struct entry){.who = "others",
						     .what = "refusals",
						     .code = STATUS_PERMISSION_DENIED,
						     .left_out = limits->left_out});
	limits->left_out = 0;
	return 0;
}

static void suppress(struct server *server, struct audit_caller *caller)
{
	caller->left_out++;
	if (server->audit->timer)
		return;
	/* without the timer the count waits for the caller's next record */
	(void)sd_event_add_time_relative(server->event, &server->audit->timer, CLOCK_MONOTONIC,
					 AUDIT_SUPPRESSED_S * USEC_PER_SEC, TIMER_ACCURACY_US, on_suppressed,
					 server);
}

void audit_refused(struct server *server, const struct rpc_call *call, const char *what,
		   const struct log_ctx *about, const struct error *why)
{
	struct log_ctx ctx =
		about ? *about : (struct log_ctx){.op = what, .event = LOG_EVENT_REQUEST_REFUSED};
	uint64_t now_us = clock_monotonic_us();
	struct entry entry = {.what = what, .code = why->status, .message = why->msg};
	struct audit_caller *caller;
	struct names names;

	name_caller(server, call, &names, &entry);
	caller = caller_of(server->audit, entry.who, now_us);
	caller->used_us = now_us;
	if (!may_record(server->audit, caller, now_us)) {
		suppress(server, caller);
		return;
	}
	ctx.peer = entry.address;
	ctx.err = why;
	log_ctx(LOG_NOTICE, &ctx, "%s by %s refused", what, entry.who);
	entry.left_out = caller->left_out;
	commit_alone(server, &entry);
	caller->left_out = 0;
}

void audit_release(struct audit_limits *limits)
{
	limits->timer = sd_event_source_disable_unref(limits->timer);
}
