/* SPDX-License-Identifier: Apache-2.0 */
#include "policy_text.h"

#include "base/str.h"

#include <inttypes.h>

/* In this order: node, cluster, agent's uid, cluster, node, helper's uid and gid, trail, ticket key,
 * container. */
static const char text[] =
	"# What the mount helper of node %s may do for its agent, within what the claim server of %s has "
	"granted.\n"
	"# All keys: mounthelper.policy(5). The helper has a change of it after: holdfast policy apply.\n"
	"\n"
	"# The agent's account, holdfast, by its uid.\n"
	"agent %" PRIu32 " {\n"
	"\tcluster = %s\n"
	"\tnode = %s\n"
	"\n"
	"\t# The helper's account, holdfast-mount, and the trees and files that its package has made.\n"
	"\thelper_uid = %" PRIu32 "\n"
	"\thelper_gid = %" PRIu32 "\n"
	"\tstage_base = /run/holdfast-mount/stage\n"
	"\tpublish_base = /run/holdfast-mount/publish\n"
	"\tlock_dir = /run/holdfast-mount/lock\n"
	"\tlog = %s\n"
	"\n"
	"\t# Of the claim server: holdfast operator status prints it.\n"
	"\tticket_key = %s\n"
	"%s"
	"\n"
	"\t# What may be mounted: a profile for each kind of volume. What no profile allows is refused.\n"
	"\n"
	"\t# Memory, gone with the last allocation that uses it.\n"
	"\tprofile scratch {\n"
	"\t\tclass = tmpfs\n"
	"\t\tmax_size = 64MiB\n"
	"\t}\n"
	"\n"
	"\t# Disks whose names in /dev/disk/by-id begin so.\n"
	"\t# profile disk {\n"
	"\t#\tclass = block\n"
	"\t#\tfstype = ext4\n"
	"\t#\ttrust = trusted\n"
	"\t#\tby_id = scsi-0SAN_\n"
	"\t# }\n"
	"\n"
	"\t# Exports of file servers.\n"
	"\t# profile nas {\n"
	"\t#\tclass = nfs4\n"
	"\t#\tserver = 10.20.0.0/16\n"
	"\t#\texport = /srv/projects\n"
	"\t#\tsec = krb5p\n"
	"\t# }\n"
	"\n"
	"\t# What the CSI plugin of this id mounts.\n"
	"\t# profile ebs {\n"
	"\t#\tclass = csi\n"
	"\t# }\n"
	"\n"
	"\t# A directory of this machine that belongs to uid 1000; its disk must be mounted.\n"
	"\t# hostvol models {\n"
	"\t#\tpath = /data/models\n"
	"\t#\towner_uid = 1000\n"
	"\t#\tmount = required\n"
	"\t#\tro = yes\n"
	"\t# }\n"
	"}\n";

static const char container[] = "\n"
				"\t# This machine is a container: mounts are made in its own mount "
				"namespace, and whether the kernel's\n"
				"\t# audit is on is decided outside of it.\n"
				"\tcontainer = yes\n"
				"\taudit = optional\n";

int policy_text(const struct policy_words *words, char ret[static POLICY_TEXT_SIZE])
{
	return str_format(ret, POLICY_TEXT_SIZE, text, words->node, words->cluster, words->agent_uid,
			  words->cluster, words->node, words->helper_uid, words->helper_gid,
			  HOLDFAST_TRAIL_PATH, words->ticket_key, words->is_container ? container : "");
}
