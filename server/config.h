#pragma once
/* Settings of the claim server: /etc/holdfast/server.hcl and drop-ins, or --dev. */

#include "base/error.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	CONFIG_HOST_SIZE = 64,
	CONFIG_CLUSTER_SIZE = 64,
};

struct config {
	char path[PATH_MAX];		   /* it was read from; "": none, --dev */
	char cluster[CONFIG_CLUSTER_SIZE]; /* id_is_name() */
	char data_dir[PATH_MAX];	   /* holds holdfast.db */
	char host[CONFIG_HOST_SIZE];	   /* numeric address */
	uint32_t port;			   /* 0 (tests, --dev): chosen by the kernel */
	char ca[PATH_MAX];
	char cert[PATH_MAX];
	char key[PATH_MAX];
	char ticket_key[PATH_MAX]; /* PEM, Ed25519 private key */
	uint64_t ticket_ttl_us;	   /* a node must stage and publish within this time */
	uint64_t heartbeat_us;	   /* between a node's signs of life */
	uint64_t audit_keep;	   /* records of the audit */
	uint64_t audit_keep_for_us;
	bool acl;		     /* tokens and policies; else operators' certificates alone */
	bool dev;		     /* no ACLs: whoever reaches the port is an operator; loopback only */
	char address_file[PATH_MAX]; /* --dev: "HOST:PORT" is written here once listening; else empty */
};

/** Defaults of everything that has one. */
void config_init(struct config *config);

/** Read @path and the *.hcl files of @path.d; unknown keys and wrong values name file and line. */
enum status config_load(const char *path, struct config *config, struct error *err);
