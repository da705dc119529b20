/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Settings of the claim server: /etc/holdfast/server.hcl and drop-ins, or --dev. */

#include "access/local_operators.h"
#include "base/error.h"
#include "fence/bindings.h"
#include "lead/lead_settings.h"
#include "model/volume.h"
#include "plugin/controller_nodes.h"
#include "plugin/parameters.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	CONFIG_HOST_SIZE = 64,
	CONFIG_CLUSTER_SIZE = 64,
	CONFIG_FORBIDDEN_MAX = 32,
	CONFIG_CONTROLLER_TIMEOUT_MS = 120000, /* default of controller_timeout */
};

#define CONFIG_KEY_CREDENTIAL "holdfast.server.key"
#define CONFIG_CA_CREDENTIAL "holdfast.ca.key"
#define CONFIG_TICKET_CREDENTIAL "holdfast.ticket.key"

struct config {
	char path[PATH_MAX];		    /* it was read from; "": no file, --dev */
	char cluster[CONFIG_CLUSTER_SIZE];  /* id_is_name() */
	char data_dir[PATH_MAX - NAME_MAX]; /* holds holdfast.db; paths in it fit PATH_MAX */
	char mark_file[PATH_MAX];	    /* a second one, see marks.h; "": no second one */
	uint64_t disk_reserve;		    /* bytes, see disk.h */
	char host[CONFIG_HOST_SIZE];	    /* numeric address */
	uint32_t port;			    /* 0 (tests, --dev): chosen by the kernel */
	char socket[PATH_MAX];		    /* it listens there as well if there are @operators */
	char operators[LOCAL_OPERATORS_MAX][NODE_ID_MAX + 1]; /* users of this machine */
	char ca[PATH_MAX];
	char cert[PATH_MAX];
	char key[PATH_MAX];
	bool key_is_default;	    /* the path is set by neither the settings nor a credential */
	char ticket_key[PATH_MAX];  /* PEM, Ed25519 private key */
	bool ticket_key_is_default; /* likewise */
	struct {
		char certificate[PATH_MAX]; /* "": this server issues no certificates */
		char key[PATH_MAX];
		uint64_t node_life_us;
		uint64_t operator_life_us;
		uint64_t server_life_us;
	} authority;
	char kit_certificate[PATH_MAX]; /* whose key opens kits; "": not set */
	uint64_t ticket_ttl_us;		/* a node must stage and publish within this time */
	uint64_t heartbeat_us;		/* between a node's signs of life */
	uint64_t node_down_after_us;	/* a node without a session is down then; frees nothing */
	char attest_forbidden[CONFIG_FORBIDDEN_MAX][PLUGIN_ID_MAX + 1]; /* no attestations for these */
	struct controller_nodes controller_nodes;
	struct parameters_lists parameters;
	struct fence_bindings fence_bindings;
	uint32_t fence_max_per_minute;	/* that the server begins by itself; 0: never */
	uint64_t controller_timeout_us; /* of one call to a CSI plugin */
	uint64_t gc_interval_us;	/* between two collections */
	uint64_t gc_after_us;		/* how long ago something must have ended to be collected */
	uint64_t namespace_memory;	/* bytes that one namespace may take */
	uint64_t reservation_ttl_us;	/* after which a grant that never reached its node is taken back */
	uint64_t release_sweep_us;	/* between looks for releases that no event has driven on */
	uint64_t audit_keep;		/* records of the audit */
	uint64_t audit_keep_for_us;
	bool acl;	  /* tokens and policies; else only operators' certificates */
	bool dev;	  /* no ACLs: every client that reaches the port is an operator; loopback only */
	bool needs_store; /* it is not created, see new_cluster.h */
	struct lead_settings etcd;   /* store "etcd" */
	char address_file[PATH_MAX]; /* --dev: "HOST:PORT" is written here once listening; else empty */
};

/** Is the store in etcd, with several servers? */
static inline bool config_is_on_etcd(const struct config *config)
{
	return lead_settings_are_given(&config->etcd);
}

/** Defaults of everything that has one. */
void config_init(struct config *config);

/** Reads @path and the *.hcl files of @path.d; unknown keys and wrong values name file and line. */
enum status config_load(const char *path, struct config *config, struct error *err);
