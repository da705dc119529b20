/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The marks of the server's store (store/mark.h): holdfast.mark in its folder and, if the settings name one,
 * a second file. A store that is behind them has lost acknowledged changes. */

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct config;
struct kv;
struct new_epoch;
struct server;

/** At the start, when the store is of this schema and before its state is loaded, and before a move: begin an
 * epoch if the store is behind the marks. */
enum status marks_check(const struct config *config, struct kv *kv, struct error *err);

/** Once the state is loaded: keep the marks from here on. */
enum status marks_keep(struct server *server, struct error *err);

enum { MARKS_WARNING_SIZE = 512 };

struct etcd_progress;

/** While another server leads: advance this one's marks to @progress, so that it detects an etcd that was put
 * back when it leads. They are never lowered. If they are ahead, the store has gone back in time: the server
 * writes that into the store, which ends the leader, and the next one begins an epoch. */
void marks_follow(struct server *server, const struct etcd_progress *progress);

/** Release them; before marks_check(), and at the end. */
void marks_follow_end(struct server *server);

/** From time to time: log when a mark cannot be written, and when it can be again. */
void marks_watch(struct server *server);

/** Is there something to warn of? */
bool marks_warning(const struct server *server, char ret[static MARKS_WARNING_SIZE]);

/** Raise @wanted above the numbers of the marks, and wait for the nodes that they count. Unreadable marks are
 * ignored. */
void marks_raise(const struct config *config, struct new_epoch *wanted);

/** A restore without a server has put a store of @epoch in its place. */
enum status marks_note_restore(const struct config *config, uint64_t epoch, struct error *err);
