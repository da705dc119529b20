#include "audit.h"

#include "access.h"
#include "keys.h"
#include "records.h"
#include "server.h"
#include "text.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"

#include <holdfast/v1/operator.pb-c.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

enum { TIMER_ACCURACY_US = 1000000 };

/* A record's text, cut and cleaned; each borrowed for the call. */
struct entry {
	const char *who;
	const char *address;
	const char *what;
	const char *object;
	const char *why;
	enum status code;
	const char *message;
	uint64_t left_out;
};

static char *clean(char *buffer, size_t size, const char *text)
{
	str_copy_text(buffer, size, text ? text : "");
	return buffer;
}

/* Owned by the caller; NULL when memory is short. */
static ProtobufCMessage *new_record(const struct entry *entry)
{
	Holdfast__V1__AuditRecord record = HOLDFAST__V1__AUDIT_RECORD__INIT;
	char who[AUDIT_WHO_SIZE];
	char address[RPC_ADDRESS_SIZE];
	char what[AUDIT_WHO_SIZE];
	char object[AUDIT_OBJECT_SIZE];
	char why[AUDIT_WHY_SIZE];
	char message[AUDIT_MESSAGE_SIZE];

	record.time_ms = clock_realtime_ms();
	record.who = clean(who, sizeof(who), entry->who);
	record.address = clean(address, sizeof(address), entry->address);
	record.what = clean(what, sizeof(what), entry->what);
	record.object = clean(object, sizeof(object), entry->object);
	record.why = clean(why, sizeof(why), entry->why);
	record.message = clean(message, sizeof(message), entry->message);
	record.code = (int32_t)entry->code;
	record.left_out = entry->left_out;
	return message_copy(&record.base);
}

static void log_write(const char *what, const char *who, const char *object, const char *why)
{
	bool says_why = why && why[0] != '\0';

	log_line(LOG_NOTICE, "%s by %s: %s%s%s", what, who, object, says_why ? ": " : "",
		 says_why ? why : "");
}

void audit_write(struct server *server, struct change *change, const struct rpc_call *call, const char *what,
		 const char *object, const char *why)
{
	char who[ACCESS_WHO_SIZE];

	(void)access_who(server, call, who);
	log_write(what, who, object, why);
	change_take_audit(change, new_record(&(struct entry){.who = who,
							     .address = rpc_call_peer(call)->address,
							     .what = what,
							     .object = object,
							     .why = why}));
}

void audit_own(struct server *server, struct change *change, const char *what, const char *object,
	       const char *why)
{
	static const char who[] = "server";

	(void)server;
	log_write(what, who, object, why);
	change_take_audit(
		change, new_record(&(struct entry){.who = who, .what = what, .object = object, .why = why}));
}

/* --- the chain --- */

Holdfast__V1__AuditHead audit_head(struct server *server)
{
	const Holdfast__V1__AuditHead *stored = state_record(&server->state, KEY_AUDIT_HEAD);
	Holdfast__V1__AuditHead head = HOLDFAST__V1__AUDIT_HEAD__INIT;

	if (stored)
		head = *stored;
	else
		head.first = 1;
	return head;
}

/* @record becomes the last one of the chain that @head ends, whose hash is in @sha256. */
static enum status append(const struct server *server, struct change *change,
			  Holdfast__V1__AuditRecord *record, Holdfast__V1__AuditHead *head,
			  uint8_t sha256[static SHA256_DIGEST_LENGTH])
{
	uint8_t *bytes = NULL;
	char key[OBJECT_KEY_SIZE];
	size_t len;

	record->sequence = head->sequence + 1;
	record->previous_sha256 = head->sha256; /* borrowed until it is packed */
	len = protobuf_c_message_get_packed_size(&record->base);
	bytes = malloc(len);
	if (bytes) {
		(void)protobuf_c_message_pack(&record->base, bytes);
		(void)str_format(key, sizeof(key), PREFIX_AUDIT "%016" PRIx64, record->sequence);
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
	enum status st = STATUS_OK;

	if (change->audit_first > 0)
		head.first = change->audit_first;
	for (size_t i = 0; i < change->n_audit && st == STATUS_OK; i++)
		st = append(server, change, (Holdfast__V1__AuditRecord *)change->audit[i], &head, sha256);
	if (st == STATUS_OK)
		change_put_record(change, KEY_AUDIT_HEAD, &head.base);
	else if (change->status == STATUS_OK)
		change->status = error_set(&change->error, st, 0, "out of memory for the audit record");
}

/* --- refusals --- */

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
	rate_init(&oldest->rate, AUDIT_REFUSALS_PER_S, AUDIT_REFUSALS_BURST, now_us);
	return oldest;
}

static bool may_record(struct audit_limits *limits, struct audit_caller *caller, uint64_t now_us)
{
	if (!limits->is_set)
		rate_init(&limits->rate, AUDIT_ALL_REFUSALS_PER_S, AUDIT_ALL_REFUSALS_BURST, now_us);
	limits->is_set = true;
	return rate_take(&caller->rate, now_us) && rate_take(&limits->rate, now_us);
}

static void commit_alone(struct server *server, const struct entry *entry)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct error err;

	change_take_audit(&change, new_record(entry));
	if (change_commit(server, &change, NULL, NULL, &err) != STATUS_OK)
		log_ctx(LOG_ERR, &(struct log_ctx){.err = &err}, "a refusal could not be recorded");
}

/* Tell what was left out, though nobody is refused any more. */
static int on_left_out(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct server *server = userdata;
	struct audit_limits *limits = &server->audit;

	(void)source;
	(void)usec;
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

static void leave_out(struct server *server, struct audit_caller *caller)
{
	caller->left_out++;
	if (server->audit.timer)
		return;
	/* without the timer the count waits for the caller's next record */
	(void)sd_event_add_time_relative(server->event, &server->audit.timer, CLOCK_MONOTONIC,
					 AUDIT_LEFT_OUT_S * USEC_PER_SEC, TIMER_ACCURACY_US, on_left_out,
					 server);
}

void audit_refused(struct server *server, const struct rpc_call *call, const char *what,
		   const struct error *why)
{
	uint64_t now_us = clock_monotonic_us();
	struct audit_caller *caller;
	char who[ACCESS_WHO_SIZE];

	caller = caller_of(&server->audit, access_who(server, call, who), now_us);
	caller->used_us = now_us;
	if (!may_record(&server->audit, caller, now_us)) {
		leave_out(server, caller);
		return;
	}
	log_ctx(LOG_NOTICE, &(struct log_ctx){.err = why}, "%s by %s refused", what, who);
	commit_alone(server, &(struct entry){.who = who,
					     .address = rpc_call_peer(call)->address,
					     .what = what,
					     .code = why->status,
					     .message = why->msg,
					     .left_out = caller->left_out});
	caller->left_out = 0;
}

void audit_release(struct audit_limits *limits)
{
	limits->timer = sd_event_source_disable_unref(limits->timer);
}
