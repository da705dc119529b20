/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The rights of a policy: capabilities in namespaces, and levels over plugins, nodes and the server itself.
 *
 * The rule whose pattern fits a namespace best decides, over all policies of a caller together: the name
 * itself before any prefix, a longer prefix before a shorter one. Rules with the same pattern add up; a
 * denial among them leaves nothing. Names and the coarse policies are Nomad's. Pure. */

#include "base/error.h"

#include <holdfast/v1/operator.pb-c.h>
#include <stddef.h>
#include <stdint.h>

enum {
	POLICY_NAME_MAX = 64,
	POLICY_DESCRIPTION_MAX = 256,
	POLICY_RULES_MAX = 64,
	POLICY_CAPABILITIES_MAX = 16, /* names in one rule */
};

/* Rights in a namespace. */
enum policy_capability {
	CAPABILITY_LIST_VOLUME,	    /* csi-list-volume */
	CAPABILITY_READ_VOLUME,	    /* csi-read-volume */
	CAPABILITY_MOUNT_VOLUME,    /* csi-mount-volume */
	CAPABILITY_WRITE_VOLUME,    /* csi-write-volume */
	CAPABILITY_REGISTER_PLUGIN, /* csi-register-plugin: in no coarse policy */
	CAPABILITY_RUN_UNIT,	    /* alloc-run-unit: in no coarse policy */
	CAPABILITY_ATTEST_VOLUME,   /* csi-attest-volume: in no coarse policy */
	CAPABILITY_ADOPT_VOLUME,    /* csi-adopt-volume: in no coarse policy */
	CAPABILITY_LIST_JOBS,	    /* list-jobs */
	CAPABILITY_READ_JOB,	    /* read-job */
	CAPABILITY_SUBMIT_JOB,	    /* submit-job */
	CAPABILITY_ALLOC_EXEC,	    /* alloc-exec */
	CAPABILITY_READ_LOGS,	    /* read-logs */
	CAPABILITY_N,
};

#define CAPABILITY_BIT(capability) (UINT32_C(1) << (capability))

/* Rights outside namespaces; each contains the ones before. */
enum policy_level {
	POLICY_NONE,
	POLICY_LIST,
	POLICY_READ,
	POLICY_WRITE,
	POLICY_FENCE, /* of nodes */
	POLICY_LEVEL_N,
};

/** Is the policy well-formed? STATUS_INVALID_ARGUMENT names the rule and the wrong value. */
enum status policy_validate(const Holdfast__V1__AccessPolicy *policy, struct error *err);

/** CAPABILITY_BITs that the policies together give in @namespace; NULL: in any namespace at all.
 * @policies valid ones; entries may be NULL */
uint32_t policy_capabilities(const Holdfast__V1__AccessPolicy *const *policies, size_t n,
			     const char *namespace);

/** The highest level that one of the policies gives. */
enum policy_level policy_plugin_level(const Holdfast__V1__AccessPolicy *const *policies, size_t n);
enum policy_level policy_node_level(const Holdfast__V1__AccessPolicy *const *policies, size_t n);
enum policy_level policy_operator_level(const Holdfast__V1__AccessPolicy *const *policies, size_t n);
/** POLICY_READ: kits; POLICY_WRITE: copies as well. */
enum policy_level policy_backup_level(const Holdfast__V1__AccessPolicy *const *policies, size_t n);
