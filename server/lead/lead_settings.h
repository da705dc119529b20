/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The block store "etcd" of the server's settings. */

#include "base/clock.h"
#include "base/error.h"
#include "conf/conf.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	LEAD_ENDPOINTS_MAX = 16,
	LEAD_ENDPOINT_SIZE = 272,
	LEAD_PREFIX_SIZE = 201,
	LEAD_NAME_SIZE = 64,
	LEAD_ADDRESS_SIZE = 160,
	LEAD_TICKET_KEY_SIZE = 65,
	LEAD_LEASE_DEFAULT_S = 5,
};

struct lead_settings {
	/* https://HOST:PORT or unix:/PATH; ends with "" unless it is full; no endpoint: the store is in
	 * sqlite */
	char endpoints[LEAD_ENDPOINTS_MAX][LEAD_ENDPOINT_SIZE];
	char ca[PATH_MAX];
	char certificate[PATH_MAX];
	char key[PATH_MAX];
	char prefix[LEAD_PREFIX_SIZE];	   /* of all keys of this cluster */
	char name[LEAD_NAME_SIZE];	   /* of this server */
	char advertise[LEAD_ADDRESS_SIZE]; /* where others reach it; "": where it listens */
	uint64_t lease_us;
	bool yields; /* it has stepped down, and leaves the lead to others for a lease */
	char ticket_key[LEAD_TICKET_KEY_SIZE]; /* public half, in hex; "": it leads with any */
	bool may_be_retired;		       /* a store that was moved to sqlite is opened too */
	uint32_t schema; /* of the records that this server writes, see state/schema.h */
};

#define LEAD_SETTINGS_INIT(number)                                                                  \
	{                                                                                           \
		.ca = "/etc/holdfast/tls/etcd-ca.pem", .certificate = "/etc/holdfast/tls/etcd.pem", \
		.lease_us = LEAD_LEASE_DEFAULT_S * USEC_PER_SEC, .schema = (number),                \
	}

static inline bool lead_settings_are_given(const struct lead_settings *settings)
{
	return settings->endpoints[0][0] != '\0';
}

/** A row of CONF_BLOCKS. */
enum status lead_settings_bind(const struct conf *conf, const char *label, json_t *body,
			       struct lead_settings *settings, struct error *err);

/** Defaults of what depends on the cluster and the unit. */
void lead_settings_complete(struct lead_settings *settings, const char *cluster);
