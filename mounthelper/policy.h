/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The policy of root: one block per agent uid, parsed from one strict text.
 *
 *	agent UID {
 *		key = value
 *		profile NAME { class = block | tmpfs | nfs4 | csi, which comes first; ... }
 *		hostvol NAME { path = /srv/data; owner_uid = 1000; ... }
 *	}
 *
 * Statements end with a line or a semicolon, `#` begins a comment. An unknown or repeated key, a value out of
 * range, a missing key or a contradiction is refused with its line. Pure: the buffer is all it reads. The
 * keys are explained in mounthelper.policy(5). */

#include "fstypes.h"
#include "mounthelper_wire.h"
#include "mounthelper_words.h"

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	POLICY_TEXT_MAX = 65536,
	POLICY_AGENT_MAX = 16,
	POLICY_PROFILE_MAX = 64, /* over all agents; the same again of host volumes */
	POLICY_RULE_MAX = 8,	 /* by_id, server, export: each */
	POLICY_KEY_MAX = 2,
	POLICY_CONTEXT_SIZE = 128,
	NFS_SEC_N = 4,
	NFS_VERS_N = 2,
};

/* Of the NFS client's options sec and vers; the first one is the default. */
extern const char *const nfs_sec_words[NFS_SEC_N];
extern const char *const nfs_vers_words[NFS_VERS_N];

struct by_id_rule {
	bool exact; /* else a prefix */
	char text[MH_BY_ID_SIZE];
};

struct server_rule {
	uint8_t family;	  /* 4 or 6 */
	uint8_t addr[16]; /* network order; zero beyond prefix_bits */
	uint8_t prefix_bits;
};

/* What agents may ask the helper to stage. A hostvol block is a profile of class bind. */
struct profile {
	char name[MH_LABEL_SIZE];
	unsigned int line; /* where it begins */
	uint32_t class;	   /* enum mh_class */
	uint32_t kind;	   /* enum fs_kind; FS_ANY for bind and csi */
	uint32_t trust;	   /* enum trust */
	bool read_only;
	bool exec;
	bool shared;	  /* host-to-task and bidirectional propagation are allowed */
	uint32_t options; /* 1 << index into fs_options */
	char selinux_context[POLICY_CONTEXT_SIZE]; /* of every file of the mount, or empty */
	/* block */
	uint32_t n_by_id;
	struct by_id_rule by_id[POLICY_RULE_MAX];
	/* tmpfs */
	uint64_t max_size; /* bytes */
	uint64_t max_inodes;
	/* nfs4 */
	uint32_t n_servers;
	struct server_rule server[POLICY_RULE_MAX];
	uint32_t n_exports;
	char export[POLICY_RULE_MAX][MH_EXPORT_SIZE]; /* prefixes, on a component boundary */
	uint32_t sec;				      /* index into nfs_sec_words */
	uint32_t vers;				      /* index into nfs_vers_words */
	/* bind */
	char path[MH_PATH_SIZE];
	uint32_t owner_uid;
};

enum trust {
	TRUST_UNSET,
	TRUST_TRUSTED,
	TRUST_UNTRUSTED,
};

struct ticket_keys {
	uint32_t n; /* two while the server's key is being rotated */
	uint8_t key[POLICY_KEY_MAX][TICKET_KEY_SIZE];
};

struct agent_policy {
	uint32_t uid;
	unsigned int line; /* where the block begins */
	char cluster[TICKET_CLUSTER_SIZE];
	char node[TICKET_NODE_SIZE];
	uint32_t helper_uid;
	uint32_t helper_gid;
	char stage_base[MH_PATH_SIZE];
	char publish_base[MH_PATH_SIZE];
	char log[MH_PATH_SIZE];
	char lock_dir[MH_PATH_SIZE];
	uint32_t ticket_optional; /* 0: required */
	struct ticket_keys keys;
	uint32_t audit_optional; /* 0: required */
	uint32_t sync_batch;	 /* trail_sync: 0 always, 1 batch */
	bool container;
	bool allow_detach;
	uint32_t max_staged;
	uint32_t max_published;
	uint32_t max_per_alloc;	  /* slots 0 to this minus 1 */
	uint64_t max_tmpfs_total; /* bytes */
	uint32_t ops_per_second;
	uint32_t burst;
	uint32_t starts_per_minute;
	uint32_t nfs_timeout_s;
	const struct profile *profiles; /* in the policy's, one after the other */
	uint32_t n_profiles;
};

struct policy {
	uint32_t n_agents;
	uint32_t n_profiles;
	uint32_t n_hostvols; /* of them */
	struct agent_policy agents[POLICY_AGENT_MAX];
	struct profile profiles[2 * POLICY_PROFILE_MAX];
};

/** Parse @n bytes at @text.
 *
 * @file     only for messages, which begin with FILE:LINE:
 * @ret      holds nothing of use after a failure
 * @ret_line of the mistake, untouched on success
 * Returns STATUS_INVALID_ARGUMENT for anything that is not a complete, consistent policy. */
enum status policy_parse(const char *file, const char *text, size_t n, struct policy *ret,
			 unsigned int *ret_line, struct error *err);

/** The block of agent @uid, or NULL. */
const struct agent_policy *policy_agent(const struct policy *policy, uint32_t uid);

/** The profile @name of @agent, or NULL. */
const struct profile *policy_profile(const struct agent_policy *agent, const char *name);

/** May a volume of @profile have @source, which is well-formed and of the profile's class?
 * REASON_NONE, or which of its fields is outside the profile. */
enum reason profile_admit_source(const struct profile *profile, const struct mh_source *source);

/** Grammar of an entry of /dev/disk/by-id: 1 to 128 of `[A-Za-z0-9:._+-]`, not beginning with a dot. */
bool by_id_is_valid(const char *s);

/** Grammar of an export: an absolute path of components `[A-Za-z0-9._-]`, none of them "." or "..", without a
 * trailing slash; "/" alone is one. */
bool export_is_valid(const char *s);

/* Consistency of what the policy's parser read: each returns NULL, or what is wrong. */

/** Do class, file system, trust and options of @profile go together? */
const char *policy_check_profile(const struct profile *profile);

/** Is @agent consistent by itself, and are its uids apart from those of every agent already in @policy? */
const char *policy_check_agent(const struct policy *policy, const struct agent_policy *agent);

/** Is no tree, log, lock_dir or host volume of @policy below another, but for host volumes below each other?
 * @ret_line of the later block when not */
const char *policy_check_paths(const struct policy *policy, unsigned int *ret_line);
