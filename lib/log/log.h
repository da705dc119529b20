/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Log lines: structured fields to journald when stderr is the journal, logfmt lines to stderr otherwise.
 *
 * Log once, at the edge. Secrets and mount flags never reach this interface. Control bytes in values are
 * escaped, so that a value cannot forge a field or a line. */

#include "base/error.h"
#include "log/events.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <syslog.h>

/* The subject of a line; NULL members are left out. Journal fields HOLDFAST_VOLUME=, HOLDFAST_ALLOC=, ... */
struct log_ctx {
	const char *volume;
	const char
		*wire_volume; /* its name towards the mount helper, which the helper's own lines have, too */
	const char *alloc;
	const char *node;
	const char *claim;
	const char *plugin;
	const char *driver;	    /* of tasks */
	const char *unit;	    /* of systemd */
	const char *op;		    /* stage, publish, claim, session, ... */
	const char *peer;	    /* the caller */
	const char *evidence;	    /* by which a claim was freed */
	const char *relayed;	    /* the program whose record this line repeats */
	const char *relayed_reason; /* of that record, a keyword */
	uint64_t record;	    /* its number; 0: left out */
	uint64_t generation;	    /* of the claim; 0: left out */
	enum log_event event; /* adds HOLDFAST_EVENT=, MESSAGE_ID= and, where it has one, HOLDFAST_RESULT= */
	const struct error *err; /* adds HOLDFAST_STATUS= and ERRNO=, and ": <message>" to the text */
};

/** Once, before the first line. @ident e.g. "holdfast-agent", borrowed for ever.
 * @max_priority lines above it (LOG_DEBUG is the highest number) are dropped. */
void log_init(const char *ident, int max_priority);

/** Sets the node of lines that name no node, borrowed for ever; NULL: no node. */
void log_set_node(const char *node);

/** Drops other lines from now on. */
void log_set_level(int max_priority);

/** Writes one line of @priority (LOG_ERR, LOG_WARNING, LOG_NOTICE, LOG_INFO, LOG_DEBUG). @ctx may be NULL. A
 * line with an event has that event's level.
 * At most 200 lines a second are written, and at most 100 of one event about one thing, so that a flood of
 * one does not hide the others. Dropped lines are counted, and one line reports their number afterwards. */
void log_ctx(int priority, const struct log_ctx *ctx, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/** Would log_ctx() drop this line? It counts as dropped then. For callers whose line is costly to make.
 * Uses only the subject in @ctx: its event and the first of node, plugin, driver, volume, allocation and
 * peer that it names. */
bool log_would_drop(int priority, const struct log_ctx *ctx);

/** Writes why the program ends, LOG_ERR, to standard error. A line of log_ctx() goes to the journal as a
 * message whose unit journald looks up by its process, and is lost for the unit if that has ended; of the
 * stream it knows the unit. @ident as log_init()'s, which need not have been called. */
void log_last(const char *ident, const struct error *err);

/** A line without context. */
#define log_line(priority, ...) log_ctx((priority), NULL, __VA_ARGS__)

/** Renders one line as logfmt into @dst of @size bytes, cut at the end; for tests and for log_ctx(). Returns
 * the length. `ts=... level=notice ident=... msg="..." volume=db alloc=...` */
size_t log_format(char *dst, size_t size, const char *ident, int priority, const struct log_ctx *ctx,
		  const char *message);

/** Number below LOG_RATE_SUBJECTS of what a line is about: its event, and the node, plugin, driver,
 * volume, allocation or peer, the first of these that it names. @ctx may be NULL. */
unsigned int log_subject(const struct log_ctx *ctx);

/** Copies @text into @dst of @size bytes with control bytes and invalid UTF-8 as \n, \t, \r or \xHH; cut
 * between characters when it does not fit. Returns the length. */
size_t log_escape(char *dst, size_t size, const char *text);

/** Does @journal_stream, the value of JOURNAL_STREAM or NULL, name the file with @dev and @ino? Only then
 * does its output arrive in the journal. Source: systemd.exec(5), "$JOURNAL_STREAM". */
bool log_stream_is_journal(const char *journal_stream, dev_t dev, ino_t ino);
