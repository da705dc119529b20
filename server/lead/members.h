/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The servers that share a store in etcd, and etcd's own members.
 *
 * Each server keeps the key PREFIX/servers/NAME/ADDRESS, with its version and start time, by a lease of
 * its own: a server that is gone leaves the list within the lease. It is for people; no decision depends
 * on it. */

#include "base/error.h"
#include "lead/lead_settings.h"
#include "rpc/tls.h"

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

enum { MEMBERS_SERVERS_MAX = 64, MEMBERS_TEXT_SIZE = 32, MEMBERS_WHY_SIZE = 256 };

struct members;

struct members_server {
	char name[LEAD_NAME_SIZE];
	char address[LEAD_ADDRESS_SIZE];
	char version[MEMBERS_TEXT_SIZE];
	int64_t since_ms; /* it runs, by its clock */
};

struct members_etcd {
	char endpoint[LEAD_ENDPOINT_SIZE];
	bool is_reachable;
	bool is_refused;	    /* TLS with it fails: a certificate */
	bool has_leader;	    /* of etcd, that it knows */
	bool is_full;		    /* the alarm NOSPACE is on */
	char why[MEMBERS_WHY_SIZE]; /* not reachable, or the errors that it reports; "": no error */
	char version[MEMBERS_TEXT_SIZE];
	bool leads; /* the other members */
	uint64_t size_bytes;
	uint64_t applied; /* entries of etcd's log */
	uint64_t id;
	char alarms[MEMBERS_TEXT_SIZE]; /* "NOSPACE"; "": no alarm */
};

struct members_view {
	struct members_server servers[MEMBERS_SERVERS_MAX];
	size_t n_servers;
	struct members_etcd etcd[LEAD_ENDPOINTS_MAX];
	size_t n_etcd;
	char servers_why[MEMBERS_WHY_SIZE]; /* the servers are not known; "": they are */
};

/** @event, @tls borrowed; @settings too, but for the texts. Begins to keep the key. */
enum status members_new(sd_event *event, const struct lead_settings *settings, struct rpc_tls *tls,
			const char *name, const char *address, struct members **ret, struct error *err);

/** Looks in flight end with STATUS_UNAVAILABLE. The key stays for the rest of its lease. NULL is allowed. */
void members_free(struct members *members);

/** @view is borrowed; NULL on failure, then @err has the cause. */
typedef void members_done_fn(const struct members_view *view, const struct error *err, void *userdata);

/** Ask etcd for the servers and each member for itself; @done follows from the event loop, once each has
 * answered or had its time. */
enum status members_look(struct members *members, members_done_fn *done, void *userdata, struct error *err);
