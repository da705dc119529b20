#include "record.h"

#include "audit.h"

#include "base/str.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

static const char *const door_words[] = {[DOOR_SETUID] = "setuid", [DOOR_SOCKET] = "socket"};

static void put_device(struct record *record, uint32_t dev_major, uint32_t dev_minor)
{
	char text[24];

	(void)str_format(text, sizeof(text), "%u:%u", dev_major, dev_minor);
	record_word(record, "dev", text);
}

static void put_source(struct record *record, const struct mh_source *source)
{
	switch ((enum mh_class)source->class) {
	case MH_CLASS_BLOCK:
		record_word(record, "src", source->u.block.by_id);
		put_device(record, source->u.block.major, source->u.block.minor);
		break;
	case MH_CLASS_TMPFS:
		record_number(record, "size", source->u.tmpfs.size_bytes);
		record_number(record, "inodes", source->u.tmpfs.inodes);
		break;
	case MH_CLASS_NFS4:
	case MH_CLASS_BIND:
	case MH_CLASS_CSI:
	case MH_CLASS_N:
		break;
	}
}

static void put_publish(struct record *record, const struct mh_publish *m)
{
	record_word(record, "vol", m->volume);
	record_word(record, "alloc", m->alloc);
	record_number(record, "slot", m->slot);
	record_word(record, "profile", m->profile);
	record_number(record, "ro", m->read_only);
	record_number(record, "exec", m->exec);
	record_word(record, "prop", propagation_word(m->propagation));
}

static void put_request(struct record *record, const union mh_request *req)
{
	switch (req->header.op) {
	case MH_OP_STAGE:
		record_word(record, "vol", req->stage.volume);
		record_word(record, "alloc", req->stage.alloc);
		record_word(record, "profile", req->stage.profile);
		record_number(record, "ro", req->stage.read_only);
		put_source(record, &req->stage.source);
		break;
	case MH_OP_PUBLISH:
		put_publish(record, &req->publish);
		break;
	case MH_OP_UNPUBLISH:
		record_word(record, "vol", req->unpublish.volume);
		record_word(record, "alloc", req->unpublish.alloc);
		record_number(record, "slot", req->unpublish.slot);
		record_number(record, "detach", req->unpublish.detach);
		break;
	case MH_OP_UNSTAGE:
		record_word(record, "vol", req->unstage.volume);
		record_number(record, "detach", req->unstage.detach);
		break;
	default: /* STAT and LIST appear only when over the rate */
		break;
	}
}

/* Has put_request() recorded a device number already? */
static bool names_device(const union mh_request *req)
{
	return req->header.op == MH_OP_STAGE && req->stage.source.class == MH_CLASS_BLOCK;
}

static void put_admission(struct record *record, const struct admission *admission)
{
	if (admission->profile)
		record_word(record, "fstype", fs_types[admission->profile->kind].name);
	if (admission->ticket)
		record_number(record, "gen", admission->ticket->generation);
}

static void put_peer(struct record *record, const struct helper *h)
{
	record_number(record, "peer_uid", h->peer_uid);
	record_number(record, "peer_pid", (uint64_t)h->peer_pid);
	record_word(record, "door", door_words[h->door]);
	record_hex(record, "policy", h->policy_digest, 8);
}

static void begin(struct record *record, const char *op, const char *phase, uint64_t seq)
{
	record_word(record, "op", op);
	record_word(record, "phase", phase);
	record_number(record, "seq", seq);
}

/* Own log first, then the kernel's audit. Intents stay in the own log: their results follow. */
static int put(struct helper *h, const struct record *record, uint64_t *ret_rec)
{
	int r = trail_append(&h->trail, record, ret_rec);

	if (r == 0)
		audit_send(h->audit_fd, (uint32_t)*ret_rec, record->text + 1); /* without the first blank */
	return r;
}

int record_start(struct helper *h, uint32_t instance, bool container, uint32_t staged, uint32_t published)
{
	struct record record = RECORD_INIT;
	struct utsname system;
	uint64_t rec;

	begin(&record, "start", "event", 0);
	record_word(&record, "version", HOLDFAST_VERSION);
	record_number(&record, "instance", instance);
	record_number(&record, "container", container);
	record_number(&record, "staged", staged);
	record_number(&record, "published", published);
	if (uname(&system) == 0)
		record_word(&record, "kernel", system.release);
	record_word(&record, "boot", h->boot_id);
	record_hex(&record, "digest", h->policy_digest, sizeof(h->policy_digest));
	put_peer(&record, h);
	return put(h, &record, &rec);
}

int record_end(struct helper *h, const char *event, enum reason reason, uint64_t seq)
{
	struct record record = RECORD_INIT;
	uint64_t rec;

	begin(&record, event, "event", seq);
	put_peer(&record, h);
	record_word(&record, "reason", reason_word(reason));
	return put(h, &record, &rec);
}

int record_refusal(struct helper *h, const union mh_request *req, enum reason reason, uint64_t *ret_rec)
{
	struct record record = RECORD_INIT;

	begin(&record, op_word(req->header.op), "refused", req->header.seq);
	put_request(&record, req);
	put_peer(&record, h);
	record_word(&record, "reason", reason_word(reason));
	record_word(&record, "res", "failed");
	return put(h, &record, ret_rec);
}

int record_intent(struct helper *h, const union mh_request *req, const struct admission *admission,
		  uint64_t *ret_rec)
{
	struct record record = RECORD_INIT;

	begin(&record, op_word(req->header.op), "intent", req->header.seq);
	put_request(&record, req);
	put_admission(&record, admission);
	put_peer(&record, h);
	return trail_append(&h->trail, &record, ret_rec);
}

int record_result(struct helper *h, const union mh_request *req, const struct admission *admission,
		  const struct outcome *outcome, bool degraded, uint64_t *ret_rec)
{
	bool good = outcome->status == MH_OK || outcome->status == MH_ALREADY;
	struct record record = RECORD_INIT;

	begin(&record, op_word(req->header.op), "result", req->header.seq);
	put_request(&record, req);
	put_admission(&record, admission);
	if ((outcome->dev_major != 0 || outcome->dev_minor != 0) && !names_device(req))
		put_device(&record, outcome->dev_major, outcome->dev_minor);
	put_peer(&record, h);
	record_word(&record, "status", status_word(outcome->status));
	record_number(&record, "errno", (uint64_t)abs(outcome->sys_errno));
	record_word(&record, "step", step_word(outcome->step));
	record_word(&record, "reason", reason_word(outcome->reason));
	if (degraded)
		record_word(&record, "trail", "degraded");
	record_word(&record, "res", good ? "success" : "failed");
	return put(h, &record, ret_rec);
}

void record_refusals_summary(struct helper *h, uint64_t now_us, bool at_end)
{
	uint32_t n = refusals_take_summary(&h->refusals, now_us, at_end);
	struct record record = RECORD_INIT;
	uint64_t rec;

	if (n == 0)
		return;
	begin(&record, "refusals", "event", 0);
	record_number(&record, "count", n);
	put_peer(&record, h);
	(void)put(h, &record, &rec); /* only a summary; the next record shows the gap in seq */
}
