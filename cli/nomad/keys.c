/* SPDX-License-Identifier: Apache-2.0 */
#include "nomad/keys.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <assert.h>

#define NO_CATALOG "there is no service catalog; a proxy is set up by its own configuration"
#define NO_VAULT "secrets belong into a volume"
#define ONE_POOL "a cluster is one pool"
#define NO_SPREAD "a member goes to a node with few allocations; constraint keeps it from others"
#define NO_META "write the variables into env"
#define NO_DELAY "a stop begins at once, with stop_signal"
#define NO_SCALING "holdfast job scale changes the count"
#define OF_ENGINE "the engine's own setting is used"
#define NO_DISCONNECT "an allocation runs on while its node is away, and a claim is freed only by evidence"
#define NO_MIGRATE "a drain stops all allocations of the node"

/* In the order of docs/nomad-keys.md. */
static const struct nomad_key keys[] = {
	{NOMAD_FILE, "job", NOMAD_TAKEN, NULL},
	{NOMAD_FILE, "variable", NOMAD_CHANGED, "its value is written where it is used"},
	{NOMAD_FILE, "variables", NOMAD_REFUSED, "give the values with --var NAME=VALUE"},
	{NOMAD_FILE, "locals", NOMAD_CHANGED, "their values are written where they are used"},

	{NOMAD_JOB, "namespace", NOMAD_TAKEN, NULL},
	{NOMAD_JOB, "type", NOMAD_TAKEN, NULL},
	{NOMAD_JOB, "group", NOMAD_TAKEN, NULL},
	{NOMAD_JOB, "constraint", NOMAD_TAKEN, NULL},
	{NOMAD_JOB, "update", NOMAD_CHANGED, "each group has its own update"},
	{NOMAD_JOB, "reschedule", NOMAD_CHANGED, "each group has its own reschedule"},
	{NOMAD_JOB, "name", NOMAD_DROPPED, "the label of the job is its id and name"},
	{NOMAD_JOB, "id", NOMAD_DROPPED, "the label of the job is its id and name"},
	{NOMAD_JOB, "datacenters", NOMAD_DROPPED, ONE_POOL},
	{NOMAD_JOB, "region", NOMAD_DROPPED, ONE_POOL},
	{NOMAD_JOB, "node_pool", NOMAD_DROPPED, ONE_POOL "; constraint on meta of nodes divides it"},
	{NOMAD_JOB, "priority", NOMAD_DROPPED, "members wait for a volume in order of arrival"},
	{NOMAD_JOB, "all_at_once", NOMAD_DROPPED, "members are placed one by one"},
	{NOMAD_JOB, "affinity", NOMAD_DROPPED, NO_SPREAD},
	{NOMAD_JOB, "spread", NOMAD_DROPPED, NO_SPREAD},
	{NOMAD_JOB, "meta", NOMAD_DROPPED, NO_META},
	{NOMAD_JOB, "migrate", NOMAD_DROPPED, NO_MIGRATE},
	{NOMAD_JOB, "ui", NOMAD_DROPPED, "there is no web page"},
	{NOMAD_JOB, "vault", NOMAD_DROPPED, NO_VAULT},
	{NOMAD_JOB, "vault_token", NOMAD_DROPPED, NO_VAULT},
	{NOMAD_JOB, "consul_token", NOMAD_DROPPED, NO_CATALOG},
	{NOMAD_JOB, "multiregion", NOMAD_REFUSED, "submit the job to each cluster"},
	{NOMAD_JOB, "periodic", NOMAD_REFUSED,
	 "submit a batch job from a systemd timer, with holdfast job run"},
	{NOMAD_JOB, "parameterized", NOMAD_REFUSED, "submit a job for each run"},
	{NOMAD_JOB, "task", NOMAD_REFUSED, "write it into a group"},

	{NOMAD_GROUP, "count", NOMAD_TAKEN, NULL},
	{NOMAD_GROUP, "task", NOMAD_TAKEN, NULL},
	{NOMAD_GROUP, "volume", NOMAD_TAKEN, NULL},
	{NOMAD_GROUP, "constraint", NOMAD_TAKEN, NULL},
	{NOMAD_GROUP, "update", NOMAD_TAKEN, NULL},
	{NOMAD_GROUP, "reschedule", NOMAD_TAKEN, NULL},
	{NOMAD_GROUP, "network", NOMAD_CHANGED, "mode is host or isolated"},
	{NOMAD_GROUP, "restart", NOMAD_CHANGED, "each task has its own restart"},
	{NOMAD_GROUP, "service", NOMAD_DROPPED, NO_CATALOG},
	{NOMAD_GROUP, "ephemeral_disk", NOMAD_DROPPED, "use a volume; one of class tmpfs is in memory"},
	{NOMAD_GROUP, "affinity", NOMAD_DROPPED, NO_SPREAD},
	{NOMAD_GROUP, "spread", NOMAD_DROPPED, NO_SPREAD},
	{NOMAD_GROUP, "meta", NOMAD_DROPPED, NO_META},
	{NOMAD_GROUP, "migrate", NOMAD_DROPPED, NO_MIGRATE},
	{NOMAD_GROUP, "scaling", NOMAD_DROPPED, NO_SCALING},
	{NOMAD_GROUP, "shutdown_delay", NOMAD_DROPPED, NO_DELAY},
	{NOMAD_GROUP, "disconnect", NOMAD_DROPPED, NO_DISCONNECT},
	{NOMAD_GROUP, "max_client_disconnect", NOMAD_DROPPED, NO_DISCONNECT},
	{NOMAD_GROUP, "stop_after_client_disconnect", NOMAD_DROPPED, NO_DISCONNECT},
	{NOMAD_GROUP, "prevent_reschedule_on_lost", NOMAD_DROPPED, NO_DISCONNECT},
	{NOMAD_GROUP, "vault", NOMAD_DROPPED, NO_VAULT},
	{NOMAD_GROUP, "consul", NOMAD_DROPPED, NO_CATALOG},

	{NOMAD_TASK, "driver", NOMAD_CHANGED, "docker and podman are the driver \"container\""},
	{NOMAD_TASK, "config", NOMAD_TAKEN, NULL},
	{NOMAD_TASK, "env", NOMAD_TAKEN, NULL},
	{NOMAD_TASK, "user", NOMAD_TAKEN, NULL},
	{NOMAD_TASK, "resources", NOMAD_TAKEN, NULL},
	{NOMAD_TASK, "volume_mount", NOMAD_TAKEN, NULL},
	{NOMAD_TASK, "csi_plugin", NOMAD_TAKEN, NULL},
	{NOMAD_TASK, "logs", NOMAD_TAKEN, NULL},
	{NOMAD_TASK, "restart", NOMAD_TAKEN, NULL},
	{NOMAD_TASK, "kill_signal", NOMAD_CHANGED, "it is stop_signal"},
	{NOMAD_TASK, "kill_timeout", NOMAD_CHANGED, "it is stop_timeout"},
	{NOMAD_TASK, "artifact", NOMAD_DROPPED, "put the file into the image or onto a volume"},
	{NOMAD_TASK, "template", NOMAD_DROPPED,
	 "put the file into the image or onto a volume; variables into env"},
	{NOMAD_TASK, "service", NOMAD_DROPPED, NO_CATALOG},
	{NOMAD_TASK, "vault", NOMAD_DROPPED, NO_VAULT},
	{NOMAD_TASK, "secret", NOMAD_DROPPED, NO_VAULT},
	{NOMAD_TASK, "identity", NOMAD_DROPPED, NO_VAULT},
	{NOMAD_TASK, "consul", NOMAD_DROPPED, NO_CATALOG},
	{NOMAD_TASK, "lifecycle", NOMAD_REFUSED, "no task waits for the end of another"},
	{NOMAD_TASK, "leader", NOMAD_DROPPED, "an allocation ends when one task fails or all ended"},
	{NOMAD_TASK, "affinity", NOMAD_DROPPED, NO_SPREAD},
	{NOMAD_TASK, "meta", NOMAD_DROPPED, NO_META},
	{NOMAD_TASK, "scaling", NOMAD_DROPPED, NO_SCALING},
	{NOMAD_TASK, "schedule", NOMAD_DROPPED, "use a systemd timer"},
	{NOMAD_TASK, "action", NOMAD_DROPPED, "use holdfast alloc exec"},
	{NOMAD_TASK, "shutdown_delay", NOMAD_DROPPED, NO_DELAY},
	{NOMAD_TASK, "kind", NOMAD_DROPPED, NO_CATALOG},
	{NOMAD_TASK, "dispatch_payload", NOMAD_REFUSED, "submit a job for each run"},
	{NOMAD_TASK, "constraint", NOMAD_CHANGED, "it is one of the group"},

	{NOMAD_VOLUME, "source", NOMAD_TAKEN, NULL},
	{NOMAD_VOLUME, "access_mode", NOMAD_TAKEN, NULL},
	{NOMAD_VOLUME, "attachment_mode", NOMAD_TAKEN, NULL},
	{NOMAD_VOLUME, "read_only", NOMAD_TAKEN, NULL},
	{NOMAD_VOLUME, "per_alloc", NOMAD_TAKEN, NULL},
	{NOMAD_VOLUME, "type", NOMAD_DROPPED, "the record of the volume has its type"},
	{NOMAD_VOLUME, "mount_options", NOMAD_DROPPED, "register the volume with them"},
	{NOMAD_VOLUME, "sticky", NOMAD_DROPPED, "a volume of class bind or block is on its node only"},

	{NOMAD_VOLUME_MOUNT, "volume", NOMAD_TAKEN, NULL},
	{NOMAD_VOLUME_MOUNT, "destination", NOMAD_TAKEN, NULL},
	{NOMAD_VOLUME_MOUNT, "read_only", NOMAD_TAKEN, NULL},
	{NOMAD_VOLUME_MOUNT, "propagation_mode", NOMAD_CHANGED,
	 "it is propagation, here and in the volume block"},
	{NOMAD_VOLUME_MOUNT, "selinux_label", NOMAD_DROPPED, "the policy of the mount helper has the label"},

	{NOMAD_CSI_PLUGIN, "id", NOMAD_TAKEN, NULL},
	{NOMAD_CSI_PLUGIN, "type", NOMAD_TAKEN, NULL},
	{NOMAD_CSI_PLUGIN, "mount_dir", NOMAD_TAKEN, NULL},
	{NOMAD_CSI_PLUGIN, "health_timeout", NOMAD_TAKEN, NULL},
	{NOMAD_CSI_PLUGIN, "stage_publish_base_dir", NOMAD_DROPPED,
	 "the plugin has the staging folders of the node"},

	{NOMAD_NETWORK, "mode", NOMAD_CHANGED,
	 "bridge is host: there is no bridge, tasks use the network of the node"},
	{NOMAD_NETWORK, "port", NOMAD_DROPPED,
	 "no port is mapped: with network host the task listens on its own port of the node"},
	{NOMAD_NETWORK, "dns", NOMAD_DROPPED, OF_ENGINE},
	{NOMAD_NETWORK, "hostname", NOMAD_DROPPED, "write hostname into config of the task"},
	{NOMAD_NETWORK, "mbits", NOMAD_DROPPED, "networks are not shared out"},
	{NOMAD_NETWORK, "cni", NOMAD_DROPPED, OF_ENGINE},

	{NOMAD_CONSTRAINT, "attribute", NOMAD_TAKEN, NULL},
	{NOMAD_CONSTRAINT, "value", NOMAD_TAKEN, NULL},
	{NOMAD_CONSTRAINT, "operator", NOMAD_CHANGED,
	 "it is =, !=, <, <=, >, >=, is_set, is_not_set or distinct_hosts"},
	{NOMAD_CONSTRAINT, "distinct_hosts", NOMAD_CHANGED, "it is an operator"},
	{NOMAD_CONSTRAINT, "regexp", NOMAD_REFUSED, "compare with = or !="},
	{NOMAD_CONSTRAINT, "version", NOMAD_REFUSED,
	 "compare with <, <=, > or >=, which compare versions part by part"},
	{NOMAD_CONSTRAINT, "semver", NOMAD_REFUSED,
	 "compare with <, <=, > or >=, which compare versions part by part"},
	{NOMAD_CONSTRAINT, "set_contains", NOMAD_REFUSED,
	 "give the nodes an entry of meta for each member of the set"},
	{NOMAD_CONSTRAINT, "distinct_property", NOMAD_REFUSED, "write a group for each value"},

	{NOMAD_UPDATE, "max_parallel", NOMAD_TAKEN, NULL},
	{NOMAD_UPDATE, "min_healthy_time", NOMAD_TAKEN, NULL},
	{NOMAD_UPDATE, "healthy_deadline", NOMAD_TAKEN, NULL},
	{NOMAD_UPDATE, "stagger", NOMAD_DROPPED, "min_healthy_time is the pause"},
	{NOMAD_UPDATE, "health_check", NOMAD_DROPPED,
	 "a member is healthy when it has run for min_healthy_time"},
	{NOMAD_UPDATE, "progress_deadline", NOMAD_DROPPED, "healthy_deadline ends an update that is stuck"},
	{NOMAD_UPDATE, "auto_revert", NOMAD_DROPPED,
	 "a failed update stops; holdfast job revert brings the last good version back"},
	{NOMAD_UPDATE, "auto_promote", NOMAD_DROPPED, "there are no canaries"},
	{NOMAD_UPDATE, "canary", NOMAD_DROPPED,
	 "there are no canaries; max_parallel members are replaced first"},

	{NOMAD_RESCHEDULE, "attempts", NOMAD_TAKEN, NULL},
	{NOMAD_RESCHEDULE, "interval", NOMAD_TAKEN, NULL},
	{NOMAD_RESCHEDULE, "delay", NOMAD_TAKEN, NULL},
	{NOMAD_RESCHEDULE, "unlimited", NOMAD_TAKEN, NULL},
	{NOMAD_RESCHEDULE, "delay_function", NOMAD_DROPPED, "the delay is constant"},
	{NOMAD_RESCHEDULE, "max_delay", NOMAD_DROPPED, "the delay is constant"},

	{NOMAD_RESTART, "attempts", NOMAD_TAKEN, NULL},
	{NOMAD_RESTART, "interval", NOMAD_TAKEN, NULL},
	{NOMAD_RESTART, "delay", NOMAD_TAKEN, NULL},
	{NOMAD_RESTART, "mode", NOMAD_TAKEN, NULL},
	{NOMAD_RESTART, "render_templates", NOMAD_DROPPED, "there are no templates"},

	{NOMAD_RESOURCES, "memory", NOMAD_TAKEN, NULL},
	{NOMAD_RESOURCES, "cpu", NOMAD_CHANGED, "it is cpu_shares"},
	{NOMAD_RESOURCES, "cores", NOMAD_CHANGED, "it is cpu_millis, a limit of 1000 for each core"},
	{NOMAD_RESOURCES, "memory_max", NOMAD_CHANGED, "it is memory, which is the limit"},
	{NOMAD_RESOURCES, "network", NOMAD_DROPPED, "write network into the group"},
	{NOMAD_RESOURCES, "disk", NOMAD_DROPPED, "volumes have their own size"},
	{NOMAD_RESOURCES, "iops", NOMAD_DROPPED, "it is not limited"},
	{NOMAD_RESOURCES, "numa", NOMAD_DROPPED, "the kernel places memory"},
	{NOMAD_RESOURCES, "secrets", NOMAD_DROPPED, NO_VAULT},
	{NOMAD_RESOURCES, "device", NOMAD_REFUSED, "devices are not assigned to tasks"},

	{NOMAD_LOGS, "disabled", NOMAD_TAKEN, NULL},
	{NOMAD_LOGS, "enabled", NOMAD_CHANGED, "it is disabled, the other way round"},
	{NOMAD_LOGS, "max_files", NOMAD_DROPPED, OF_ENGINE},
	{NOMAD_LOGS, "max_file_size", NOMAD_DROPPED, OF_ENGINE},

	{NOMAD_CONFIG, "image", NOMAD_TAKEN, NULL},
	{NOMAD_CONFIG, "args", NOMAD_TAKEN, NULL},
	{NOMAD_CONFIG, "work_dir", NOMAD_TAKEN, NULL},
	{NOMAD_CONFIG, "hostname", NOMAD_TAKEN, NULL},
	{NOMAD_CONFIG, "privileged", NOMAD_TAKEN, NULL},
	{NOMAD_CONFIG, "init", NOMAD_TAKEN, NULL},
	{NOMAD_CONFIG, "command", NOMAD_CHANGED,
	 "it is the first of args: the entry point of the image stays"},
	{NOMAD_CONFIG, "entrypoint", NOMAD_CHANGED, "it is command"},
	{NOMAD_CONFIG, "cap_add", NOMAD_CHANGED, "capabilities have their full names, CAP_NET_ADMIN"},
	{NOMAD_CONFIG, "readonly_rootfs", NOMAD_CHANGED, "it is read_only_root"},
	{NOMAD_CONFIG, "network_mode", NOMAD_CHANGED, "it is network of the task"},
	{NOMAD_CONFIG, "volumes", NOMAD_CHANGED,
	 "a read-only folder outside of volumes is host_paths; one to write to is a volume of class bind"},
	{NOMAD_CONFIG, "mount", NOMAD_CHANGED,
	 "a read-only folder outside of volumes is host_paths; one to write to is a volume of class bind"},
	{NOMAD_CONFIG, "mounts", NOMAD_CHANGED,
	 "a read-only folder outside of volumes is host_paths; one to write to is a volume of class bind"},
	{NOMAD_CONFIG, "ports", NOMAD_DROPPED, "no port is mapped"},
	{NOMAD_CONFIG, "port_map", NOMAD_DROPPED, "no port is mapped"},
	{NOMAD_CONFIG, "cap_drop", NOMAD_DROPPED, "a container has only the capabilities of cap_add"},
	{NOMAD_CONFIG, "auth", NOMAD_DROPPED, "pull images beforehand; podman uses root's podman login"},
	{NOMAD_CONFIG, "force_pull", NOMAD_DROPPED,
	 "an image that is there is used; write a digest or another tag"},
	{NOMAD_CONFIG, "labels", NOMAD_DROPPED, "labels are the driver's own"},
	{NOMAD_CONFIG, "pids_limit", NOMAD_DROPPED, "write pids into resources"},
	{NOMAD_CONFIG, "memory_hard_limit", NOMAD_DROPPED, "write memory into resources"},
	{NOMAD_CONFIG, "cpu_hard_limit", NOMAD_DROPPED, "write cpu_millis into resources"},
	{NOMAD_CONFIG, "tmpfs", NOMAD_DROPPED, "use a volume of class tmpfs"},
	{NOMAD_CONFIG, "devices", NOMAD_REFUSED, "devices are not assigned to tasks"},
	{NOMAD_CONFIG, "runtime", NOMAD_REFUSED, OF_ENGINE},
	{NOMAD_CONFIG, "security_opt", NOMAD_REFUSED, OF_ENGINE},
	{NOMAD_CONFIG, "auth_soft_fail", NOMAD_DROPPED, OF_ENGINE},
	{NOMAD_CONFIG, "dns_servers", NOMAD_DROPPED, OF_ENGINE},
	{NOMAD_CONFIG, "dns_search_domains", NOMAD_DROPPED, OF_ENGINE},
	{NOMAD_CONFIG, "dns_options", NOMAD_DROPPED, OF_ENGINE},
	{NOMAD_CONFIG, "extra_hosts", NOMAD_DROPPED, OF_ENGINE},
	{NOMAD_CONFIG, "group_add", NOMAD_DROPPED, OF_ENGINE},
	{NOMAD_CONFIG, "healthchecks", NOMAD_DROPPED, OF_ENGINE},
	{NOMAD_CONFIG, "image_pull_timeout", NOMAD_DROPPED, OF_ENGINE},
	{NOMAD_CONFIG, "interactive", NOMAD_DROPPED, OF_ENGINE},
	{NOMAD_CONFIG, "ipc_mode", NOMAD_DROPPED, OF_ENGINE},
	{NOMAD_CONFIG, "ipv4_address", NOMAD_DROPPED, OF_ENGINE},
	{NOMAD_CONFIG, "ipv6_address", NOMAD_DROPPED, OF_ENGINE},
	{NOMAD_CONFIG, "load", NOMAD_DROPPED, OF_ENGINE},
	{NOMAD_CONFIG, "logging", NOMAD_DROPPED, OF_ENGINE},
	{NOMAD_CONFIG, "mac_address", NOMAD_DROPPED, OF_ENGINE},
	{NOMAD_CONFIG, "network_aliases", NOMAD_DROPPED, OF_ENGINE},
	{NOMAD_CONFIG, "pid_mode", NOMAD_DROPPED, OF_ENGINE},
	{NOMAD_CONFIG, "shm_size", NOMAD_DROPPED, OF_ENGINE},
	{NOMAD_CONFIG, "storage_opt", NOMAD_DROPPED, OF_ENGINE},
	{NOMAD_CONFIG, "sysctl", NOMAD_DROPPED, OF_ENGINE},
	{NOMAD_CONFIG, "tty", NOMAD_DROPPED, OF_ENGINE},
	{NOMAD_CONFIG, "ulimit", NOMAD_DROPPED, OF_ENGINE},
	{NOMAD_CONFIG, "userns_mode", NOMAD_DROPPED, OF_ENGINE},
	{NOMAD_CONFIG, "uts_mode", NOMAD_DROPPED, OF_ENGINE},
	{NOMAD_CONFIG, "volume_driver", NOMAD_DROPPED, OF_ENGINE},
};

size_t nomad_key_count(void)
{
	return ARRAY_SIZE(keys);
}

const struct nomad_key *nomad_key_at(size_t i)
{
	assert(i < ARRAY_SIZE(keys));
	return &keys[i];
}

const struct nomad_key *nomad_find_key(enum nomad_block block, const char *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (keys[i].block == block && str_eq(keys[i].key, key))
			return &keys[i];
	return NULL;
}

static bool has_keys(enum nomad_block block, const json_t *object)
{
	static const struct {
		enum nomad_block block;
		const char *key;
		enum nomad_block inner;
	} below[] = {{NOMAD_FILE, "job", NOMAD_JOB},
		     {NOMAD_JOB, "group", NOMAD_GROUP},
		     {NOMAD_GROUP, "task", NOMAD_TASK}};
	const char *key, *label;
	json_t *value, *inner;

	json_object_foreach ((json_t *)(uintptr_t)object, key, value) {
		const struct nomad_key *row = nomad_find_key(block, key);

		/* these two have their names here too */
		if (row && row->fate != NOMAD_TAKEN && !str_eq(key, "driver") && !str_eq(key, "network"))
			return true;
		for (size_t i = 0; i < ARRAY_SIZE(below); i++)
			if (below[i].block == block && str_eq(below[i].key, key))
				json_object_foreach (value, label, inner)
					if (has_keys(below[i].inner, inner))
						return true;
	}
	return false;
}

bool nomad_has_keys(const json_t *root)
{
	return has_keys(NOMAD_FILE, root);
}
