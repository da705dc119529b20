/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The policy of root: one block per agent uid, compiled from root's text (tool/policy_parse.h).
 *
 * `holdfast policy apply` reads the text, mounthelper.policy(5), and writes struct policy_file next to it.
 * The helper reads only that file: it parses no text, and checks each field before anything uses it. */

#include "fstypes.h"
#include "mounthelper_wire.h"
#include "mounthelper_words.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	POLICY_MAGIC = 0x4c504648, /* "HFPL" */
	POLICY_VERSION = 1,
	POLICY_TEXT_MAX = 65536,
	POLICY_AGENT_MAX = 16,
	POLICY_PROFILE_MAX = 64, /* over all agents; the same again of host volumes */
	POLICY_RULE_MAX = 8,	 /* by_id, server, export: each */
	POLICY_KEY_MAX = 2,
	POLICY_CONTEXT_SIZE = 128,
	NFS_SEC_N = 4,
	NFS_VERS_N = 2,
};

/* Values of the NFS client's options sec and vers; the first one is the default. */
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

/* A source that agents may ask the helper to stage. A hostvol block is a profile of class bind. */
struct profile {
	char name[MH_LABEL_SIZE];
	unsigned int line; /* where it begins */
	uint32_t class;	   /* enum mh_class */
	uint32_t kind;	   /* enum fs_kind; FS_ANY for bind and csi */
	uint32_t trust;	   /* enum trust */
	bool read_only;
	bool exec;
	bool shared;	  /* host-to-task and bidirectional propagation are allowed */
	bool needs_mount; /* bind: the path must be the root of a mount */
	uint32_t options; /* 1 << index into fs_options */
	char selinux_context[POLICY_CONTEXT_SIZE]; /* of every file of the mount, or empty */
	/* block; bind: at most one, the UUID of the file system */
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
	uint32_t first_profile; /* of the policy's, which follow each other */
	uint32_t n_profiles;
	const struct profile *profiles; /* NULL in a file: policy_file_check() sets it */
};

struct policy {
	uint32_t n_agents;
	uint32_t n_profiles;
	uint32_t n_hostvols; /* of them */
	struct agent_policy agents[POLICY_AGENT_MAX];
	struct profile profiles[2 * POLICY_PROFILE_MAX];
};

/* Suffix of the applied policy, appended to the name of its text. */
#define POLICY_APPLIED ".applied"

/* The compiled policy as it is in its file: fields as they are in memory, since the same machine writes and
 * reads it. Everything but `digest` is as in the text, or constant. */
struct policy_file {
	uint32_t magic;
	uint32_t version;
	uint32_t size; /* of this struct */
	uint32_t reserved;
	uint8_t digest[TICKET_DIGEST_SIZE];	 /* SHA-256 of everything after it, to the last profile */
	uint8_t text_digest[TICKET_DIGEST_SIZE]; /* SHA-256 of the text that it was compiled from */
	struct policy policy;
};

/** Is @file, of which @n bytes were read, a compiled policy of this release, unchanged since, with each field
 * in its range? Then file->policy can be used. */
bool policy_file_check(struct policy_file *file, size_t n);

/** Is each field of @policy in its range? Then its agents get their profiles. */
bool policy_check(struct policy *policy);

/** SHA-256 of what file->digest covers. */
void policy_file_digest(const struct policy_file *file, uint8_t ret[static TICKET_DIGEST_SIZE]);

/** The block of agent @uid, or NULL. */
const struct agent_policy *policy_agent(const struct policy *policy, uint32_t uid);

/** The profile @name of @agent, or NULL. */
const struct profile *policy_profile(const struct agent_policy *agent, const char *name);

/** May a volume of @profile have @source, which is well-formed and of the profile's class?
 * REASON_NONE, or which of its fields is outside the profile. */
enum reason profile_admit_source(const struct profile *profile, const struct mh_source *source);

/** Grammar of an entry of /dev/disk/by-id: 1 to 128 of `[A-Za-z0-9:._+-]`, not beginning with a dot. */
bool by_id_is_valid(const char *s);

/** Grammar of an export: an absolute path of components `[A-Za-z0-9._-]`, but not "." or "..", without a
 * trailing slash; "/" is valid. */
bool export_is_valid(const char *s);

/* Grammars of texts in the policy. */
bool policy_name_is_valid(const char *s);    /* of a cluster or node */
bool policy_path_is_valid(const char *s);    /* absolute, normal, and not "/" */
bool policy_context_is_valid(const char *s); /* of SELinux */

/** Do class, file system, trust and options of @profile fit together? NULL, or the fault. */
const char *policy_check_profile(const struct profile *profile);
