/* SPDX-License-Identifier: Apache-2.0 */
/* The server's audit: what it recorded, and whether the chain of records is whole. */

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
#include "call/connect.h"
#include "command/commands.h"
#include "show/rows.h"

#include <holdfast/v1/operator.pb-c.h>
#include <inttypes.h>
#include <openssl/sha.h>
#include <string.h>
#include <time.h>

typedef enum status each_page_fn(const Holdfast__V1__ListAuditResponse *page, void *userdata,
				 struct error *err);

/* Fetches page after page until the last one. */
static enum status walk(struct invocation *inv, Holdfast__V1__ListAuditRequest *request, each_page_fn *each,
			void *userdata, struct error *err)
{
	cleanup_connection struct connection *connection = NULL;
	enum status status = connect_server(inv, &connection, err);
	bool more = true;

	while (status == STATUS_OK && more) {
		cleanup_message Holdfast__V1__ListAuditResponse *page = NULL;

		status = connection_call(connection, &holdfast__v1__operator__descriptor, "ListAudit",
					 &request->base, CALL_TIMEOUT_US, &page, err);
		if (status == STATUS_OK)
			status = each(page, userdata, err);
		more = status == STATUS_OK && page->next_after > request->after;
		if (more)
			request->after = page->next_after;
	}
	return status;
}

/* --- show --- */

/* "2h" ago, or a UTC time: 2025-01-31, 2025-01-31T12:00, 2025-01-31T12:00:00Z. */
static enum status since_of(struct invocation *inv, int64_t *ret_ms, struct error *err)
{
	static const char *const forms[] = {"%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M",
					    "%Y-%m-%d"};
	const char *text = inv->options[OPT_SINCE];
	uint64_t ago_us;

	if (!text)
		return STATUS_OK;
	if (parse_duration(text, &ago_us) == 0) {
		*ret_ms = clock_realtime_ms() - (int64_t)(ago_us / USEC_PER_MSEC);
		return STATUS_OK;
	}
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		struct tm tm = {.tm_mday = 1};
		const char *end = strptime(text, forms[i], &tm);

		if (end && *end == '\0') {
			*ret_ms = (int64_t)timegm(&tm) * 1000;
			return STATUS_OK;
		}
	}
	return usage_error(inv, err, "'%s' is neither a duration (2h) nor a UTC time (2025-01-31T12:00)",
			   text);
}

struct showing {
	bool is_json;
	uint64_t shown;
};

/* The name of the caller, and of who vouches for it. */
static void put_who(const struct shown *shown, struct strbuf *sb)
{
	const Holdfast__V1__AuditRecord *record = (const void *)shown->message;

	strbuf_puts(sb, record->who);
	if (record->vouched_by[0])
		strbuf_printf(sb, " (%.*s)", (int)strcspn(record->vouched_by, " "), record->vouched_by);
}

static void put_result(const struct shown *shown, struct strbuf *sb)
{
	const Holdfast__V1__AuditRecord *record = (const void *)shown->message;

	strbuf_puts(sb, record->code != 0 ? status_name(status_from_number(record->code)) : "done");
}

#define LEFT_OUT "{left_out?{left_out} more refusals before}"

static DEFINE_ROWS(record_table, holdfast__v1__audit_record, NULL, COL_NUMBER("RECORD", "{sequence}"),
		   COL("TIME", "{time_ms:time}"), COL_PUT("WHO", put_who), COL("WHAT", "{what}"),
		   COL("OBJECT", "{object}"), COL_PUT("RESULT", put_result),
		   COL("WHY", "{code?{message?{message}|" LEFT_OUT "}|{why?{why}|" LEFT_OUT "}}"));

static enum status print_page(const Holdfast__V1__ListAuditResponse *page, void *userdata, struct error *err)
{
	struct showing *showing = userdata;

	showing->shown += page->n_records;
	if (!showing->is_json)
		return show_list(&record_table, NULL, page->records, page->n_records, false, err);
	for (size_t i = 0; i < page->n_records; i++)
		TRY(print_answer(&page->records[i]->base, err));
	return STATUS_OK;
}

static enum status cmd_operator_audit(struct invocation *inv, struct error *err)
{
	Holdfast__V1__ListAuditRequest request = HOLDFAST__V1__LIST_AUDIT_REQUEST__INIT;
	struct showing showing = {.is_json = inv->options[OPT_JSON] != NULL};
	enum status status = since_of(inv, &request.since_ms, err);

	request.who = option_text(inv, OPT_WHO);
	request.object = option_text(inv, OPT_OBJECT);
	if (status == STATUS_OK)
		status = walk(inv, &request, print_page, &showing, err);
	if (status == STATUS_OK && showing.shown == 0 && !showing.is_json)
		print_line("no records%s", inv->options[OPT_WHO] ? "; --who is a name as in the column WHO, "
								   "whole (operator/ann) or a part (ann)"
								 : "");
	return status;
}

/* --- verify --- */

struct checking {
	uint64_t first; /* sequence of the first record; 0: no record yet */
	uint64_t last;
	uint64_t head;			      /* as the server reports it, of the last page */
	uint8_t sha256[SHA256_DIGEST_LENGTH]; /* of the last record */
	uint8_t head_sha256[SHA256_DIGEST_LENGTH];
	uint64_t kept_from;
};

static enum status broken(struct error *err, uint64_t sequence, const char *why)
{
	return error_set(
		err, STATUS_DATA_LOSS, 0,
		"record %" PRIu64
		" is the first broken one: %s. Next: compare with a holdfast operator backup made before it",
		sequence, why);
}

static enum status check_record(struct checking *checking, const Holdfast__V1__AuditRecord *record,
				struct error *err)
{
	cleanup_free uint8_t *bytes = NULL;
	size_t len = protobuf_c_message_get_packed_size(&record->base);
	const ProtobufCBinaryData *previous = &record->previous_sha256;
	bool is_first = false;

	/* also when the server forgot the oldest ones while this read them */
	if (checking->first == 0 || checking->kept_from > checking->last + 1) {
		checking->first = checking->kept_from;
		checking->last = checking->kept_from - 1;
		is_first = true;
	}
	if (record->sequence != checking->last + 1)
		return broken(err, checking->last + 1, "it is missing");
	if (!is_first && (previous->len != SHA256_DIGEST_LENGTH ||
			  memcmp(previous->data, checking->sha256, SHA256_DIGEST_LENGTH) != 0))
		return broken(err, checking->last, "the next record names another hash of it");
	bytes = malloc(len);
	if (!bytes)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "verify the audit");
	(void)protobuf_c_message_pack(&record->base, bytes);
	(void)SHA256(bytes, len, checking->sha256);
	checking->last = record->sequence;
	return STATUS_OK;
}

static enum status check_page(const Holdfast__V1__ListAuditResponse *page, void *userdata, struct error *err)
{
	struct checking *checking = userdata;
	enum status status = STATUS_OK;

	if (!page->head)
		return error_set(err, STATUS_DATA_LOSS, 0, "the server names no head of its audit");
	checking->kept_from = page->head->first;
	for (size_t i = 0; i < page->n_records && status == STATUS_OK; i++)
		status = check_record(checking, page->records[i], err);
	checking->head = page->head->sequence;
	memset(checking->head_sha256, 0, sizeof(checking->head_sha256));
	if (page->head->sha256.len == sizeof(checking->head_sha256))
		memcpy(checking->head_sha256, page->head->sha256.data, sizeof(checking->head_sha256));
	return status;
}

static enum status check_head(const struct checking *checking, struct error *err)
{
	uint64_t next = checking->last + 1 > checking->kept_from ? checking->last + 1 : checking->kept_from;

	if (checking->last < checking->head)
		return broken(err, next, "it is missing, the server's head is beyond it");
	if (checking->head > 0 && checking->last == checking->head &&
	    memcmp(checking->sha256, checking->head_sha256, SHA256_DIGEST_LENGTH) != 0)
		return broken(err, checking->last, "the server's head names another hash of it");
	return STATUS_OK;
}

static enum status cmd_operator_audit_verify(struct invocation *inv, struct error *err)
{
	Holdfast__V1__ListAuditRequest request = HOLDFAST__V1__LIST_AUDIT_REQUEST__INIT;
	struct checking checking = {.first = 0};
	char hash[2 * SHA256_DIGEST_LENGTH + 1] = "";

	TRY(walk(inv, &request, check_page, &checking, err));
	TRY(check_head(&checking, err));
	if (checking.first != 0)
		hex_encode(hash, checking.sha256, SHA256_DIGEST_LENGTH);
	if (inv->options[OPT_JSON])
		return print_json(json_pack("{sI sI ss}", "first", (json_int_t)checking.first, "last",
					    (json_int_t)checking.last, "head", hash),
				  err);
	if (checking.first == 0)
		print_line("the audit is empty");
	else
		print_line("records %" PRIu64 " to %" PRIu64 " are whole; head %s", checking.first,
			   checking.last, hash);
	return STATUS_OK;
}

static const struct command commands[] = {
	{.path = "operator audit",
	 .args = "",
	 .help = "Show changes and refusals with their callers",
	 .example = "--since 24h --who operator/ann",
	 .options = OPTION_BIT(OPT_SINCE) | OPTION_BIT(OPT_WHO) | OPTION_BIT(OPT_OBJECT),
	 .run = cmd_operator_audit},
	{.path = "operator audit verify",
	 .args = "",
	 .help = "Check that no record of the server's audit was changed or removed",
	 .example = "",
	 .run = cmd_operator_audit_verify},
};

const struct command_table operator_audit_commands = {commands, ARRAY_SIZE(commands)};
