/* SPDX-License-Identifier: Apache-2.0 */
#include "record.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "privileged/kernel_audit.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>

static const char *flag(uint8_t on)
{
	return on ? "1" : "0";
}

static void put_source(struct keyline *record, const struct mh_stage *req)
{
	const struct mh_source *source = &req->source;
	char address[INET6_ADDRSTRLEN] = "";

	switch ((enum mh_class)source->class) {
	case MH_CLASS_BLOCK:
		keyline_word(record, "src", source->u.block.by_id);
		keyline_device(record, "dev", source->u.block.major, source->u.block.minor);
		break;
	case MH_CLASS_TMPFS:
		keyline_number(record, "size", source->u.tmpfs.size_bytes);
		keyline_number(record, "inodes", source->u.tmpfs.inodes);
		break;
	case MH_CLASS_NFS4:
		(void)inet_ntop(source->u.nfs4.family == 4 ? AF_INET : AF_INET6, source->u.nfs4.addr, address,
				sizeof(address));
		keyline_words(record, "src", source->u.nfs4.export, "addr", address);
		break;
	case MH_CLASS_BIND:
		keyline_word(record, "src", source->u.bind.name);
		break;
	case MH_CLASS_CSI:
		keyline_word(record, "src", req->profile); /* the plugin */
		break;
	case MH_CLASS_N:
		break;
	}
}

static void put_request(struct keyline *record, const union mh_request *req)
{
	const struct mh_stage *stage = &req->stage;
	const struct mh_publish *publish = &req->publish;

	switch (req->header.op) {
	case MH_OP_STAGE:
		keyline_words(record, "vol", stage->volume, "alloc", stage->alloc, "profile", stage->profile,
			      "ro", flag(stage->read_only));
		put_source(record, stage);
		break;
	case MH_OP_PUBLISH:
		keyline_words(record, "vol", publish->volume, "alloc", publish->alloc);
		keyline_number(record, "slot", publish->slot);
		keyline_words(record, "profile", publish->profile, "ro", flag(publish->read_only), "exec",
			      flag(publish->exec), "prop", propagation_word(publish->propagation));
		break;
	case MH_OP_UNPUBLISH:
		keyline_words(record, "vol", req->unpublish.volume, "alloc", req->unpublish.alloc);
		keyline_number(record, "slot", req->unpublish.slot);
		keyline_word(record, "detach", flag(req->unpublish.detach));
		break;
	case MH_OP_UNSTAGE:
		keyline_word(record, "vol", req->unstage.volume);
		if (req->unstage.profile[0] != '\0')
			keyline_word(record, "profile", req->unstage.profile);
		keyline_word(record, "detach", flag(req->unstage.detach));
		break;
	default: /* no other is recorded */
		break;
	}
}

static void record_begin(struct keyline *record, const char *op, const char *phase, uint64_t seq)
{
	keyline_words(record, "op", op, "phase", phase);
	keyline_number(record, "seq", seq);
}

/* The fields about the peer are the same in every record, so they are made once. */
static void put_peer(struct keyline *record, struct helper *h)
{
	if (h->peer.len == 0) {
		keyline_number(&h->peer, "peer_uid", h->peer_uid);
		keyline_number(&h->peer, "peer_pid", (uint64_t)h->peer_pid);
		keyline_word(&h->peer, "door", h->launch_mode == LAUNCH_SETUID ? "setuid" : "socket");
		keyline_sha256(&h->peer, "policy", h->policy_digest, 8);
	}
	keyline_append(record, &h->peer);
}

/* @send: kernel_audit_send() or kernel_audit_report(). */
static int pass_on(struct helper *h, int (*send)(int fd, uint16_t type, uint32_t seq, const char *text))
{
	int r;

	if (!h->record_waits)
		return 0;
	h->record_waits = false;
	chain_log_settle(&h->trail);
	/* without the space before its first field */
	r = send(h->audit_fd, KERNEL_AUDIT_TRUSTED_APP, h->record_seq, h->trail.line.text + 1);
	return h->agent->audit_optional ? 0 : r;
}

void record_pass_on(struct helper *h)
{
	(void)pass_on(h, kernel_audit_report); /* the operation is done, and in the own log */
}

void record_head(struct helper *h, uint64_t rec, uint8_t ret[static TICKET_DIGEST_SIZE])
{
	if (rec == 0 || h->record_seq != (uint32_t)rec || h->trail.head_file == 0)
		return;
	chain_log_settle(&h->trail);
	(void)hex_decode(ret, TICKET_DIGEST_SIZE, h->trail.end.digest[0]);
}

/* To the own log, with the start before it if that waits. The kernel's audit gets the record even when the
 * log does not take it. */
static int write_down(struct helper *h, const struct keyline *record, uint64_t *ret_rec)
{
	uint64_t rec = 0;
	int r;

	record_pass_on(h); /* in order */
	if (h->start_waits && record != &h->start)
		h->start_waits = chain_log_append(&h->trail, &h->start, &rec) < 0;
	rec = 0;
	r = chain_log_append(&h->trail, record, &rec);
	h->record_waits = true;
	h->record_seq = (uint32_t)rec;
	if (r == 0)
		*ret_rec = rec;
	return r;
}

/* To both, now. */
static int put(struct helper *h, const struct keyline *record, uint64_t *ret_rec)
{
	int r = write_down(h, record, ret_rec);
	int passed_on = pass_on(h, kernel_audit_send);

	return r < 0 ? r : passed_on;
}

/* Writes a record about the helper itself. @number: a line of @file, or a count if that is NULL; 0: no field
 */
static void put_event(struct helper *h, const char *op, uint64_t seq, enum reason reason, const char *file,
		      uint32_t number)
{
	struct keyline record = KEYLINE_INIT;
	bool is_good = reason == REASON_CLOSED;
	uint64_t rec;

	record_begin(&record, op, "event", seq);
	if (file)
		keyline_word(&record, "file", file);
	if (number > 0)
		keyline_number(&record, file ? "line" : "count", number);
	put_peer(&record, h);
	keyline_words(&record, "reason", reason_word(reason), "res", is_good ? "success" : "failed");
	(void)put(h, &record, &rec); /* a trail that is gone has shown in the replies */
}

void record_assertion(struct helper *h, const char *file, unsigned int line)
{
	put_event(h, "stop", 0, REASON_ASSERTION, file, line);
}

void record_start(struct helper *h, uint32_t staged, uint32_t published)
{
	struct keyline *record = &h->start;
	struct utsname system = {.release = ""};
	uint64_t rec = 0;
	int r;

	*record = (struct keyline)KEYLINE_INIT;
	h->trail.head = &h->state->header.trail;
	h->trail.batch = h->agent->sync_batch != 0;
	(void)uname(&system);
	record_begin(record, "start", "event", 0);
	keyline_word(record, "version", HOLDFAST_VERSION);
	keyline_number(record, "instance", h->instance);
	keyline_number(record, "container", h->agent->container);
	keyline_number(record, "staged", staged);
	keyline_number(record, "published", published);
	keyline_number(record, "append_only", h->log_is_append_only);
	keyline_words(record, "ticket", h->agent->ticket_optional ? "optional" : "required", "kernel",
		      system.release, "boot", h->boot_id);
	keyline_sha256(record, "digest", h->policy_digest, sizeof(h->policy_digest));
	put_peer(record, h);
	keyline_word(record, "res", "success");
	r = put(h, record, &rec);
	h->start_waits = rec == 0;
	if (r < 0)
		h->trail_fault = h->trail.fd < 0 ? TRAIL_LOG : rec == 0 ? TRAIL_LOG_END : TRAIL_AUDIT;
}

void record_end(struct helper *h, bool is_violation, enum reason reason, uint64_t seq)
{
	record_refusals_summary(h, 0, true);
	put_event(h, is_violation ? "violation" : "stop", seq, reason, NULL, 0);
	chain_log_idle(&h->trail);
}

/* The device that is mounted, unless the request named it. */
static void put_mounted(struct keyline *record, const union mh_request *req, const struct outcome *outcome)
{
	bool is_named = req->header.op == MH_OP_STAGE && req->stage.source.class == MH_CLASS_BLOCK;

	if ((outcome->dev_major != 0 || outcome->dev_minor != 0) && !is_named)
		keyline_device(record, "dev", outcome->dev_major, outcome->dev_minor);
}

static void put_outcome(struct keyline *record, const struct outcome *outcome)
{
	bool is_good = outcome->status == MH_OK || outcome->status == MH_ALREADY;

	keyline_word(record, "status", status_word(outcome->status));
	keyline_number(record, "errno", (uint64_t)abs(outcome->sys_errno));
	keyline_words(record, "step", step_word(outcome->step), "reason", reason_word(outcome->reason));
	if (outcome->is_degraded)
		keyline_word(record, "trail", "degraded");
	keyline_word(record, "res", is_good ? "success" : "failed");
}

int record_request(struct helper *h, const union mh_request *req, const struct admission *admission,
		   const struct outcome *outcome, uint64_t *ret_rec)
{
	struct keyline record = KEYLINE_INIT;
	const char *phase = outcome ? "result" : "intent";

	assert(admission || outcome);
	record_begin(&record, op_word(req->header.op), admission ? phase : "refused", req->header.seq);
	put_request(&record, req);
	if (admission && admission->profile && admission->profile->kind < FS_N)
		keyline_word(&record, "fstype", fs_names[admission->profile->kind]);
	if (admission && admission->ticket)
		keyline_number(&record, "gen", admission->ticket->generation);
	if (outcome)
		put_mounted(&record, req, outcome);
	put_peer(&record, h);
	if (!outcome)
		return put(h, &record, ret_rec);
	put_outcome(&record, outcome);
	return write_down(h, &record, ret_rec);
}

void record_refusals_summary(struct helper *h, uint64_t now_us, bool at_end)
{
	uint32_t n = h->refusals_unrecorded;

	if (n == 0 || !(at_end || rate_take(&h->state->header.rate[RATE_RECORDED], now_us)))
		return;
	put_event(h, "refusals", 0, REASON_NONE, NULL, n);
	h->refusals_unrecorded = 0;
}
