/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "hold/classify.h"
#include "hold/unit.h"
#include "model/volume.h"
#include "pb/pbjson_word.h"
#include "show/output.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

/* Above the time of one watch, and of the end of a start that took too long. */
#define EXTENSION_US (60 * USEC_PER_SEC)

enum { LINE_SIZE = 1700, CLAIM_TEXT_SIZE = 400, WORK_TEXT_SIZE = 500 };

void hold_unit_print(const char *fmt, ...)
{
	char line[LINE_SIZE];
	va_list args;

	va_start(args, fmt);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start() is the line above */
	(void)vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	print_text(stderr, line);
	(void)fflush(stderr);
}

static const char *volume_of(const struct holder *holder)
{
	return holder->alloc->volumes[0]->source;
}

/* Describes the missing step before the volume is free, as far as the server reported it. */
static void claim_text(const struct holder *holder, char text[static CLAIM_TEXT_SIZE])
{
	const Holdfast__V1__Claim *claim =
		holder->last ? hold_live_claim(holder->last->claims, holder->last->n_claims) : NULL;
	char word[PBJSON_WORD_SIZE];

	if (!claim)
		(void)str_copy(text, CLAIM_TEXT_SIZE, "its node has not reported that it has ended");
	else if (str_format(text, CLAIM_TEXT_SIZE,
			    "its claim is %s, the receipt of node %.64s is missing%s%.160s",
			    pbjson_word_text(&holdfast__v1__claim_state__descriptor, (int)claim->state, word),
			    claim->node_id, claim->last_error[0] ? ": " : "", claim->last_error) < 0)
		(void)str_copy(text, CLAIM_TEXT_SIZE, "its claim is not free");
}

static void work_text(const struct holder *holder, char text[static WORK_TEXT_SIZE])
{
	const char *volume = volume_of(holder);
	const char *id = holder->note.alloc_id;
	const char *reported = holder->last ? holder->last->allocation->client_description : "";
	char claim[CLAIM_TEXT_SIZE];

	text[0] = '\0';
	switch (holder->hold.state) {
	case HOLD_LOOKING:
		(void)str_format(text, WORK_TEXT_SIZE, "looking for allocation %s of an earlier start", id);
		break;
	case HOLD_CLEARING:
	case HOLD_EMPTYING:
		claim_text(holder, claim);
		(void)str_format(text, WORK_TEXT_SIZE,
				 "waiting for the end of allocation %s of an earlier start: %s", id, claim);
		break;
	case HOLD_SUBMITTING:
		(void)str_format(text, WORK_TEXT_SIZE, "asking for volume %.128s", volume);
		break;
	case HOLD_STANDBY:
		(void)str_format(text, WORK_TEXT_SIZE, "allocation %s%s%.300s", id,
				 reported[0] ? ": " : " waits in the queue of volume ",
				 reported[0] ? reported : volume);
		break;
	case HOLD_WAITING:
		(void)str_format(text, WORK_TEXT_SIZE,
				 "volume %.128s is being mounted, allocation %s%s%.160s", volume, id,
				 reported[0] ? ": " : "", reported);
		break;
	case HOLD_HELD:
		(void)str_format(text, WORK_TEXT_SIZE, "volume %.128s is held, allocation %s", volume, id);
		break;
	case HOLD_STOPPING:
	case HOLD_RELEASING:
		claim_text(holder, claim);
		(void)str_format(text, WORK_TEXT_SIZE, "giving volume %.128s back: %s", volume, claim);
		break;
	case HOLD_ENDED:
	case HOLD_STATE_N:
		break;
	}
}

void hold_unit_report(struct holder *holder)
{
	struct hold_unit *unit = (struct hold_unit *)holder;
	const char *trouble = holder->trouble.msg;
	char text[UNIT_STATUS_SIZE], work[WORK_TEXT_SIZE], line[UNIT_STATUS_SIZE];

	if (holder->hold.state == HOLD_ENDED)
		return;
	if (holder->hold.state == HOLD_STOPPING)
		(void)sd_notify(0, "STOPPING=1");
	/* each step in the queue comes within a watch or a retry; the mount begins its own time limit */
	if (holder->hold.state == HOLD_STANDBY || (holder->hold.state == HOLD_WAITING && holder->wait_ms > 0))
		(void)sd_notifyf(0, "EXTEND_TIMEOUT_USEC=%" PRIu64, holder->timeout_us + EXTENSION_US);
	work_text(holder, work);
	(void)snprintf(text, sizeof(text), "%s%s%s", work,
		       !trouble[0] ? ""
		       : holder->hold.state == HOLD_HELD
			       ? "; nothing new from the server, which changes nothing: "
			       : "; asking again: ",
		       trouble);
	if (str_eq(text, unit->sent))
		return;
	(void)str_copy(unit->sent, sizeof(unit->sent), text);
	str_copy_text(line, sizeof(line), text);
	(void)sd_notifyf(0, "STATUS=%s", line);
	hold_unit_print("%s", line);
}

static enum status timed_out(const struct holder *holder, struct error *err)
{
	const char *id = holder->note.alloc_id;
	char claim[CLAIM_TEXT_SIZE];
	const char *why = holder->at_end.msg[0] ? holder->at_end.msg : holder->trouble.msg;

	if (!why[0]) {
		claim_text(holder, claim);
		why = claim;
	}
	if (holder->is_absent)
		return error_set(
			err, STATUS_DEADLINE_EXCEEDED, 0,
			"volume %s was not %s within %" PRIu64
			" s: %.560s. The server knows no allocation %s, and the next start asks again. "
			"Next: holdfast volume status %s%s%s --why",
			volume_of(holder), holder->hold.was_held ? "released" : "mounted",
			holder->timeout_us / USEC_PER_SEC, why, id, volume_of(holder),
			NAMESPACE_OPTION(holder->alloc->namespace_));
	return error_set(
		err, STATUS_DEADLINE_EXCEEDED, 0,
		"volume %s was not %s within %" PRIu64
		" s: %.560s. %s %s keeps its claim and blocks other writers; this unit's next start "
		"ends it first. Next: holdfast alloc status %s, or without this unit: holdfast alloc stop %s",
		volume_of(holder), holder->hold.was_held ? "released" : "mounted",
		holder->timeout_us / USEC_PER_SEC, why,
		holder->last ? "Allocation" : "If the server was asked in time, allocation", id, id, id);
}

static enum status taken_away(const struct holder *holder, struct error *err)
{
	const Holdfast__V1__Allocation *alloc = holder->last ? holder->last->allocation : NULL;
	enum hold_event reported = holder->last ? hold_classify_get(holder->last) : HOLD_LOST;
	char word[PBJSON_WORD_SIZE];

	if (reported != HOLD_ENDING && reported != HOLD_FREED)
		return error_set(
			err, STATUS_ABORTED, 0,
			"volume %s was taken away: it is no longer mounted at %s. Next: holdfast agent "
			"status, holdfast audit show --volume %s",
			volume_of(holder), holder->path, volume_of(holder));
	return error_set(
		err, STATUS_ABORTED, 0,
		"volume %s was taken away: allocation %s is %s%s%s%s. Next: holdfast operator audit --object "
		"'allocation %s/%s', holdfast node status %s",
		volume_of(holder), alloc->id,
		pbjson_word_text(&holdfast__v1__client_status__descriptor, (int)alloc->client_status, word),
		alloc->desired_status == HOLDFAST__V1__DESIRED_STATUS__STOP ? " and was ordered to stop" : "",
		alloc->client_description[0] ? ": " : "", alloc->client_description, alloc->namespace_,
		alloc->id, alloc->node_id);
}

static enum status failed(const struct holder *holder, struct error *err)
{
	const Holdfast__V1__Allocation *alloc = holder->last ? holder->last->allocation : NULL;

	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"volume %s was not mounted, allocation %s: %s. Next: holdfast volume status %s%s%s --why",
		volume_of(holder), holder->note.alloc_id,
		alloc && alloc->client_description[0] ? alloc->client_description : "the node gave no reason",
		volume_of(holder), NAMESPACE_OPTION(holder->alloc->namespace_));
}

/* Its time to wait is over, or an operator has stopped it. */
static enum status left_queue(const struct holder *holder, struct error *err)
{
	return error_set(err, STATUS_FAILED_PRECONDITION, 0, "volume %s: allocation %s: %s",
			 volume_of(holder), holder->note.alloc_id,
			 holder->last->allocation->client_description);
}

enum status hold_unit_outcome(const struct hold_unit *unit, struct error *err)
{
	const struct holder *holder = &unit->holder;
	const struct error *why = holder->at_end.msg[0] ? &holder->at_end : &holder->trouble;

	if (holder->fatal.msg[0]) {
		*err = holder->fatal;
		return err->status;
	}
	switch (holder->hold.outcome) {
	case HOLD_DONE:
		return STATUS_OK;
	case HOLD_FAILED:
		return failed(holder, err);
	case HOLD_TIMED_OUT:
		return timed_out(holder, err);
	case HOLD_TAKEN_AWAY:
		return taken_away(holder, err);
	case HOLD_NOT_ALLOWED:
		return error_set(
			err, why->status ? why->status : STATUS_INTERNAL, 0,
			"volume %s: %s. Next: put the unit's token into /etc/credstore, as file "
			"holdfast.token.%s or holdfast.token, then systemctl restart holdfast-volume@%s",
			volume_of(holder), why->msg, unit->name, unit->name);
	case HOLD_NOT_AVAILABLE:
		if (!why->msg[0] && holder->last)
			return left_queue(holder, err);
		break;
	case HOLD_WRONG_SPEC:
		break;
	}
	/* the server's own text, which names the holder and the next command */
	return error_set(err, why->status ? why->status : STATUS_INTERNAL, 0, "volume %s: %s",
			 volume_of(holder), why->msg);
}
