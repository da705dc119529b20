#pragma once
/* The policy of root: one block per agent uid, parsed from one strict text.
 *
 *	agent UID {
 *		key = value
 *		profile NAME {
 *			key = value
 *		}
 *	}
 *
 * Statements end with a line or a semicolon, `#` begins a comment. An unknown or repeated key, a value out of
 * range, a missing key or a contradiction is refused with its line. Pure: the buffer is all it reads. */

#include "fstypes.h"
#include "mounthelper_wire.h"

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	POLICY_TEXT_MAX = 65536,
	POLICY_AGENT_MAX = 16,
	POLICY_PROFILE_MAX = 64, /* over all agents */
	POLICY_BY_ID_MAX = 8,
	POLICY_KEY_MAX = 2,
	POLICY_WORD_MAX = 255,
};

struct by_id_rule {
	bool exact; /* else a prefix */
	char text[MH_BY_ID_SIZE];
};

struct by_id_rules {
	uint32_t n;
	struct by_id_rule rule[POLICY_BY_ID_MAX];
};

struct ticket_keys {
	uint32_t n; /* two while the server's key is being rotated */
	uint8_t key[POLICY_KEY_MAX][TICKET_KEY_SIZE];
};

struct profile {
	char name[MH_LABEL_SIZE];
	uint32_t class; /* enum mh_class */
	uint32_t kind;	/* enum fs_kind */
	uint32_t trust; /* enum trust */
	bool read_only;
	bool exec;
	bool shared;
	uint32_t options; /* 1 << index into fs_options */
	struct by_id_rules by_id;
	uint64_t max_size; /* bytes, tmpfs */
	uint64_t max_inodes;
};

enum trust {
	TRUST_UNSET,
	TRUST_TRUSTED,
	TRUST_UNTRUSTED,
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
	bool container;
	bool allow_detach;
	uint32_t max_staged;
	uint32_t max_published;
	uint32_t max_per_alloc;
	uint64_t max_tmpfs_total; /* bytes */
	uint32_t ops_per_second;
	uint32_t burst;
	uint32_t first_profile; /* into policy.profiles */
	uint32_t n_profiles;
};

struct policy {
	uint32_t n_agents;
	uint32_t n_profiles;
	struct agent_policy agents[POLICY_AGENT_MAX];
	struct profile profiles[POLICY_PROFILE_MAX];
};

/** Parse @n bytes at @text.
 *
 * @file only for messages, which begin with FILE:LINE:
 * @ret  filled on success only
 * Returns STATUS_INVALID_ARGUMENT for anything that is not a complete, consistent policy. */
enum status policy_parse(const char *file, const char *text, size_t n, struct policy *ret, struct error *err);

/** The block of agent @uid, or NULL. */
const struct agent_policy *policy_agent(const struct policy *policy, uint32_t uid);

/** The profile @name of @agent, or NULL. */
const struct profile *policy_profile(const struct policy *policy, const struct agent_policy *agent,
				     const char *name);

/** May a volume of @profile be the /dev/disk/by-id entry @by_id? */
bool profile_allows_by_id(const struct profile *profile, const char *by_id);

/** Grammar of an entry of /dev/disk/by-id: 1 to 128 of `[A-Za-z0-9:._+-]`, not beginning with a dot. */
bool by_id_is_valid(const char *s);
