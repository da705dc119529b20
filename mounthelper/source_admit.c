/* SPDX-License-Identifier: Apache-2.0 */
/* May a volume of a profile have the source that is asked for? */
#include "policy.h"

#include "base/parse.h"
#include "base/path.h"
#include "base/str.h"

#include <string.h>

/* Addresses that are this node itself, or no server's: unspecified, loopback, multicast and reserved ones,
 * and IPv4 in the clothes of IPv6. */
static bool is_special(uint8_t family, const uint8_t addr[static 16])
{
	static const uint8_t zero[8];

	if (family == 4)
		return addr[0] == 0 || addr[0] == 127 || addr[0] >= 224;
	return addr[0] == 0xff || memcmp(addr, zero, sizeof(zero)) == 0;
}

/* A rule allows special addresses only if it names such a range, not if it is so wide that it holds them too.
 */
static bool server_is_allowed(const struct profile *profile, uint8_t family, const uint8_t addr[static 16])
{
	for (uint32_t i = 0; i < profile->n_servers; i++) {
		const struct server_rule *rule = &profile->server[i];
		bool names_special = rule->prefix_bits >= 8 && is_special(family, rule->addr);

		if (rule->family == family && network_contains(rule->addr, rule->prefix_bits, addr) &&
		    (names_special || !is_special(family, addr)))
			return true;
	}
	return false;
}

static bool export_is_allowed(const struct profile *profile, const char *export)
{
	for (uint32_t i = 0; i < profile->n_exports; i++)
		if (path_is_within(export, profile->export[i]))
			return true;
	return false;
}

static bool by_id_is_allowed(const struct profile *profile, const char *by_id)
{
	for (uint32_t i = 0; i < profile->n_by_id; i++) {
		const struct by_id_rule *rule = &profile->by_id[i];

		if (rule->exact ? str_eq(by_id, rule->text) : str_starts_with(by_id, rule->text))
			return true;
	}
	return false;
}

enum reason profile_admit_source(const struct profile *profile, const struct mh_source *source)
{
	switch ((enum mh_class)source->class) {
	case MH_CLASS_BLOCK:
		return by_id_is_allowed(profile, source->u.block.by_id) ? REASON_NONE : REASON_BY_ID;
	case MH_CLASS_TMPFS:
		if (source->u.tmpfs.size_bytes == 0 || source->u.tmpfs.size_bytes > profile->max_size)
			return REASON_TMPFS_SIZE;
		if (source->u.tmpfs.inodes == 0 || source->u.tmpfs.inodes > profile->max_inodes)
			return REASON_TMPFS_INODES;
		return REASON_NONE;
	case MH_CLASS_NFS4:
		if (!server_is_allowed(profile, source->u.nfs4.family, source->u.nfs4.addr))
			return REASON_SERVER;
		return export_is_allowed(profile, source->u.nfs4.export) ? REASON_NONE : REASON_EXPORT;
	case MH_CLASS_BIND:
		return str_eq(source->u.bind.name, profile->name) ? REASON_NONE : REASON_HOSTVOL;
	case MH_CLASS_CSI:
		return REASON_NONE;
	case MH_CLASS_N:
		break;
	}
	return REASON_CLASS;
}
