/* SPDX-License-Identifier: Apache-2.0 */
#include "podman_spec.h"

#include "task_spec.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <string.h>

enum { CPU_PERIOD_US = 100000, NS_PER_QUOTA = 10000 };

/* --- values: NULL for one that is not known --- */

static json_t *copy(const json_t *asked)
{
	return json_deep_copy(asked);
}

/* Reads all members of @asked; false if it has others. */
#define READ(asked, ...) (json_unpack_ex((json_t *)(uintptr_t)(asked), NULL, JSON_STRICT, __VA_ARGS__) == 0)

static json_t *signal_of(const json_t *asked)
{
	int number = json_is_string(asked) ? signal_number(json_string_value(asked)) : 0;

	return number > 0 ? json_integer(number) : NULL;
}

static json_t *env_of(const json_t *asked)
{
	json_t *env = json_object();
	const json_t *one;
	size_t i;
	int r = 0;

	json_array_foreach (asked, i, one) {
		const char *text = json_is_string(one) ? json_string_value(one) : "";
		size_t n = strcspn(text, "=");
		cleanup_free char *name = strndup(text, n);

		r |= name && text[n] == '=' ? json_object_set_new(env, name, json_string(text + n + 1)) : -1;
	}
	if (r == 0)
		return env;
	json_decref(env);
	return NULL;
}

static json_t *check_of(const json_t *asked)
{
	const char *word;

	return READ(asked, "{s:[s]}", "Test", &word) && str_eq(word, "NONE") ? copy(asked) : NULL;
}

static json_t *security_of(const json_t *asked)
{
	const char *word;

	return READ(asked, "[s]", &word) && str_eq(word, "no-new-privileges") ? json_true() : NULL;
}

static json_t *network_of(const json_t *asked)
{
	static const char joined[] = "container:";
	const char *mode = json_is_string(asked) ? json_string_value(asked) : "";

	if (str_eq(mode, "none") || str_eq(mode, "host"))
		return json_pack("{s:s}", "nsmode", mode);
	if (!str_starts_with(mode, joined))
		return NULL;
	return json_pack("{s:s, s:s}", "nsmode", "container", "value", mode + strlen(joined));
}

static json_t *restarts_of(const json_t *asked)
{
	const char *name;

	return READ(asked, "{s:s}", "Name", &name) ? json_string(name) : NULL;
}

static json_t *log_of(const json_t *asked)
{
	const char *type;

	return READ(asked, "{s:s}", "Type", &type) ? json_pack("{s:s}", "driver", type) : NULL;
}

static json_t *cpu_of(const json_t *asked)
{
	return json_pack("{s:I, s:I}", "quota", json_integer_value(asked) / NS_PER_QUOTA, "period",
			 (json_int_t)CPU_PERIOD_US);
}

/* The values of @asked, each written by @write. */
static json_t *list_of(const json_t *asked, json_t *(*write)(const json_t *one))
{
	json_t *list = json_array();
	const json_t *one;
	size_t i;
	int r = 0;

	json_array_foreach (asked, i, one)
		r |= json_array_append_new(list, write(one));
	if (r == 0)
		return list;
	json_decref(list);
	return NULL;
}

static json_t *limit_of(const json_t *asked)
{
	json_int_t soft, hard;
	const char *name;

	if (!READ(asked, "{s:s, s:I, s:I}", "Name", &name, "Soft", &soft, "Hard", &hard))
		return NULL;
	return json_pack("{s:s, s:I, s:I}", "type", name, "soft", soft, "hard", hard);
}

static json_t *limits_of(const json_t *asked)
{
	return list_of(asked, limit_of);
}

/* podman adds nosuid, nodev and noexec of the source. Mounts below a source are not bound, as by its Docker
 * API.
 */
static json_t *mount_of(const json_t *asked)
{
	const char *type, *source, *target, *propagation;
	int is_read_only, is_alone;

	if (!READ(asked, "{s:s, s:s, s:s, s:b, s:{s:s, s?b}}", "Type", &type, "Source", &source, "Target",
		  &target, "ReadOnly", &is_read_only, "BindOptions", "Propagation", &propagation,
		  "NonRecursive", &is_alone) ||
	    !str_eq(type, "bind"))
		return NULL;
	return json_pack("{s:s, s:s, s:s, s:[s, s, s]}", "type", type, "source", source, "destination",
			 target, "options", "bind", is_read_only ? "ro" : "rw", propagation);
}

static json_t *mounts_of(const json_t *asked)
{
	return list_of(asked, mount_of);
}

/* --- members --- */

static const struct row {
	const char *part; /* of the body; "": itself */
	const char *key;
	const char *limits; /* the part of resource_limits that it is in, or NULL */
	const char *name;   /* podman's; NULL: the members of the value are in that part */
	json_t *(*write)(const json_t *asked);
} rows[] = {
	{"", "Image", NULL, "image", copy},
	{"", "User", NULL, "user", copy},
	{"", "Hostname", NULL, "hostname", copy},
	{"", "WorkingDir", NULL, "work_dir", copy},
	{"", "Entrypoint", NULL, "entrypoint", copy},
	{"", "Cmd", NULL, "command", copy},
	{"", "Env", NULL, "env", env_of},
	{"", "Labels", NULL, "labels", copy},
	{"", "StopSignal", NULL, "stop_signal", signal_of},
	{"", "StopTimeout", NULL, "stop_timeout", copy},
	{"", "Healthcheck", NULL, "healthconfig", check_of},
	{"HostConfig", "SecurityOpt", NULL, "no_new_privileges", security_of},
	{"HostConfig", "CapDrop", NULL, "cap_drop", copy},
	{"HostConfig", "CapAdd", NULL, "cap_add", copy},
	{"HostConfig", "Privileged", NULL, "privileged", copy},
	{"HostConfig", "NetworkMode", NULL, "netns", network_of},
	{"HostConfig", "RestartPolicy", NULL, "restart_policy", restarts_of},
	{"HostConfig", "LogConfig", NULL, "log_configuration", log_of},
	{"HostConfig", "ReadonlyRootfs", NULL, "read_only_filesystem", copy},
	{"HostConfig", "Init", NULL, "init", copy},
	{"HostConfig", "Mounts", NULL, "mounts", mounts_of},
	{"HostConfig", "Ulimits", NULL, "r_limits", limits_of},
	{"HostConfig", "CpuShares", "cpu", "shares", copy},
	{"HostConfig", "NanoCpus", "cpu", NULL, cpu_of},
	{"HostConfig", "Memory", "memory", "limit", copy},
	{"HostConfig", "MemorySwap", "memory", "swap", copy},
	{"HostConfig", "PidsLimit", "pids", "limit", copy},
};

static const struct row *find_row(const char *part, const char *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (str_eq(rows[i].part, part) && str_eq(rows[i].key, key))
			return &rows[i];
	return NULL;
}

/* The object at @key, which is made if it is not there. */
static json_t *part_of(json_t *object, const char *key)
{
	if (!json_object_get(object, key))
		(void)json_object_set_new(object, key, json_object());
	return json_object_get(object, key);
}

static int put(json_t *spec, const struct row *row, const json_t *asked)
{
	json_t *place = row->limits ? part_of(part_of(spec, "resource_limits"), row->limits) : spec;
	json_t *value = row->write(asked);
	int r;

	if (row->name)
		return json_object_set_new(place, row->name, value);
	r = json_object_update(place, value);
	json_decref(value);
	return r;
}

static int put_all(json_t *spec, const char *part, const json_t *asked)
{
	const json_t *value;
	const char *key;
	int r = 0;

	json_object_foreach ((json_t *)(uintptr_t)asked, key, value) {
		const struct row *row = find_row(part, key);

		if (part[0] == '\0' && str_eq(key, "HostConfig"))
			r |= put_all(spec, key, value);
		else
			r |= row ? put(spec, row, value) : -1;
	}
	return r;
}

static bool has_mount_at(const json_t *mounts, const char *path)
{
	const json_t *mount;
	size_t i;

	json_array_foreach (mounts, i, mount)
		if (str_eq(json_string_value(json_object_get(mount, "destination")), path))
			return true;
	return false;
}

/* The writable folders of a container with a read-only root. */
static int add_scratch(json_t *spec)
{
	static const char *const paths[] = {"/tmp", "/var/tmp", "/run"};
	json_t *mounts = json_object_get(spec, "mounts");
	int r = 0;

	if (!json_is_true(json_object_get(spec, "read_only_filesystem")))
		return 0;
	r |= json_object_set_new(spec, "read_write_tmpfs", json_true()); /* podman 5: of /dev and /dev/shm */
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		if (!has_mount_at(mounts, paths[i]))
			r |= json_array_append_new(
				mounts, json_pack("{s:s, s:s, s:s, s:[s, s, s, s, s]}", "type", "tmpfs",
						  "source", "tmpfs", "destination", paths[i], "options", "rw",
						  "rprivate", "nosuid", "nodev", "tmpcopyup"));
	return r;
}

json_t *podman_spec_of(const json_t *body, const char *name, const char *work_dir)
{
	json_t *spec = json_pack("{s:s, s:s, s:b, s:b, s:[], s:i, s:s, s:s, s:s}", "name", name, "work_dir",
				 work_dir && work_dir[0] != '\0' ? work_dir : "/", "create_working_dir",
				 false, "manage_password", false, /* writes no file of the image */
				 "mounts", "oom_score_adj", 0, "image_volume_mode", "anonymous",
				 "base_hosts_file", "none", /* not the host's; podman 5 */
				 "systemd", "false");	    /* nothing more is mounted for such a program */

	if (put_all(spec, "", body) == 0 && add_scratch(spec) == 0)
		return spec;
	json_decref(spec);
	return NULL;
}
