/* SPDX-License-Identifier: Apache-2.0 */
/* The comparison of a container with its order, field by field. */
#include "readback.h"

#include "mounts.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/join.h"
#include "base/parse.h"
#include "base/path.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
	IMAGE_VOLUMES_MAX = 64,
	CAPABILITIES_N = 41,
	FLAGS_SIZE = 64,
	LIMIT_MAX = 64,
	CPU_ROUNDING_NS = 100000, /* podman rounds down to 10 us of each 100 ms */
	NS_PER_SECOND = 1000000000,
	CPU_ROUNDING_UP = 10000000, /* systemd rounds up to a hundredth of a processor */
};

/* A mount that was asked for. */
struct wanted {
	const char *source; /* of the request, as all texts here */
	const char *target;
	const char *propagation;
	bool is_recursive;
	bool is_volume;
	unsigned int flags; /* that it must have in the container */
	struct place place;
	char at[PATH_MAX]; /* where it was found; a link of the image may lead elsewhere */
	bool is_right;
};

struct readback {
	json_t *asked;
	size_t n;
	struct wanted *mounts;
	size_t n_image_volumes;
	char image_volumes[IMAGE_VOLUMES_MAX][PATH_MAX];
};

static bool differ(struct readback_fault *ret, const char *field, const char *ordered, const char *found)
{
	(void)str_copy(ret->field, sizeof(ret->field), field);
	str_copy_text(ret->ordered, sizeof(ret->ordered), ordered);
	str_copy_text(ret->found, sizeof(ret->found), found);
	return false;
}

/* --- tables of mounts --------------------------------------------------------------------------------------
 */

static const char *flags_text(unsigned int flags, char ret[static FLAGS_SIZE])
{
	(void)str_format(ret, FLAGS_SIZE, "%s%s%s%s", flags & READ_ONLY ? "ro" : "rw",
			 flags & NO_SUID ? ",nosuid" : "", flags & NO_DEV ? ",nodev" : "",
			 flags & NO_EXEC ? ",noexec" : "");
	return ret;
}

/* Finds the place of @path. If @is_mount, it is known only if a mount is at @path itself: the folder below a
 * mount that is gone is in another file system. */
static int find_place(const char *table, const char *path, bool is_mount, struct place *ret)
{
	int r = mounts_find(table, path, SIZE_MAX, ret);

	ret->is_known = ret->is_known && (!is_mount || ret->is_point);
	return r;
}

static bool is_same_place(const struct place *a, const struct mount_entry *b)
{
	return a->is_known && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor &&
	       str_eq(a->root, b->root);
}

static void place_text(char ret[static READBACK_TEXT_SIZE], uint32_t dev_major, uint32_t dev_minor,
		       const char *root)
{
	(void)snprintf(ret, READBACK_TEXT_SIZE, "%u:%u%.160s", dev_major, dev_minor, root);
}

static void ordered_text(char ret[static READBACK_TEXT_SIZE], const struct place *place)
{
	if (place->is_known)
		place_text(ret, place->dev_major, place->dev_minor, place->root);
	else
		(void)str_copy(ret, READBACK_TEXT_SIZE, "a mounted volume");
}

/* --- the request --- */

static const char *text_at(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

static const json_t *host_of(const json_t *container)
{
	return json_object_get(container, "HostConfig");
}

static bool is_privileged(const struct readback *readback)
{
	return json_is_true(json_object_get(host_of(readback->asked), "Privileged"));
}

/* Docker remounts what it was asked to make read-only, without the flags of the source: of a path of the
 * host, they are kept only if that is read-only itself. */
static void keep_flags(json_t *mount, struct wanted *wanted, bool drops_flags)
{
	if (drops_flags && (wanted->flags & READ_ONLY) && (wanted->place.flags & READ_ONLY))
		(void)json_object_set_new(mount, "ReadOnly", json_false());
}

static enum status read_mount(json_t *mount, const char *mountinfo_path, const char *publish_dir,
			      bool drops_flags, struct wanted *ret, struct error *err)
{
	const json_t *options = json_object_get(mount, "BindOptions");
	int r;

	ret->source = text_at(mount, "Source");
	ret->is_volume = path_is_within(ret->source, publish_dir);
	r = find_place(mountinfo_path, ret->source, ret->is_volume, &ret->place);
	if (r < 0 || (!ret->place.is_known && !ret->is_volume))
		return error_set(err, STATUS_FAILED_PRECONDITION, r, "cannot find the mount of %s in %s",
				 ret->source, mountinfo_path);
	ret->target = text_at(mount, "Target");
	ret->propagation = text_at(options, "Propagation");
	ret->is_recursive = !json_is_true(json_object_get(options, "NonRecursive"));
	ret->flags =
		(json_is_true(json_object_get(mount, "ReadOnly")) ? READ_ONLY : 0U) |
		(ret->is_volume || !drops_flags || (ret->place.flags & READ_ONLY) ? ret->place.flags : 0U);
	return STATUS_OK;
}

enum status readback_new(const char *mountinfo_path, const char *publish_dir, json_t *asked, bool drops_flags,
			 struct readback **ret, struct error *err)
{
	const json_t *mounts = json_object_get(host_of(asked), "Mounts");
	size_t n = json_array_size(mounts);
	struct readback *readback = calloc(1, sizeof(*readback));
	enum status status = STATUS_OK;

	if (readback)
		readback->mounts = calloc(n + 1, sizeof(*readback->mounts));
	if (!readback || !readback->mounts) {
		free(readback);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "remember the request");
	}
	readback->asked = json_incref(asked);
	readback->n = n;
	for (size_t i = 0; i < n && status == STATUS_OK; i++) {
		json_t *mount = json_array_get(mounts, i);

		status = read_mount(mount, mountinfo_path, publish_dir, drops_flags, &readback->mounts[i],
				    err);
		if (status == STATUS_OK)
			keep_flags(mount, &readback->mounts[i], drops_flags);
	}
	if (status == STATUS_OK)
		*ret = readback;
	else
		readback_free(readback);
	return status;
}

void readback_free(struct readback *readback)
{
	if (!readback)
		return;
	json_decref(readback->asked);
	free(readback->mounts);
	free(readback);
}

json_t *readback_asked(const struct readback *readback)
{
	return readback->asked;
}

bool readback_sources(const struct readback *readback, const char *mountinfo_path, struct readback_fault *ret)
{
	for (size_t i = 0; i < readback->n; i++) {
		const struct wanted *wanted = &readback->mounts[i];
		char ordered[READBACK_TEXT_SIZE];
		char found[READBACK_TEXT_SIZE] = "not there";
		struct place place;

		if (find_place(mountinfo_path, wanted->source, wanted->is_volume, &place) == 0 &&
		    place.is_known && wanted->place.is_known && place.dev_major == wanted->place.dev_major &&
		    place.dev_minor == wanted->place.dev_minor && place.flags == wanted->place.flags &&
		    str_eq(place.root, wanted->place.root))
			continue;
		ordered_text(ordered, &wanted->place);
		if (place.is_known)
			place_text(found, place.dev_major, place.dev_minor, place.root);
		return differ(ret, "source", ordered, found);
	}
	return true;
}

/* --- the engine's description ------------------------------------------------------------------------------
 */

/* How an answer is compared with the request. */
enum rule {
	SAME_TEXT,     /* where one was asked for */
	SAME_FLAG,     /* absent is false */
	SAME_NUMBER,   /* where one was asked for */
	AT_MOST,       /* likewise; an earlier start may have had a lower limit by root's file */
	SAME_CPU,      /* likewise; podman rounds it */
	SAME_NETWORK,  /* "container:NAME" may be answered with the id */
	WITHIN,	       /* each capability of the answer was asked for */
	HOLDS,	       /* each text of the request is answered */
	HOLDS_ENV,     /* likewise; values may be secrets, which are not shown */
	SAME_LABELS,   /* each label of the request, as it is */
	NOTHING,       /* an empty or missing list, except in a privileged container */
	EMPTY,	       /* an empty or missing list, in any container */
	CONFINED,      /* no text turns a confinement off, except in a privileged container */
	NOT_EMPTIED,   /* a list that is described has entries, except in a privileged container */
	NO_RESTARTS,   /* the policy "no" */
	OWN_NAMESPACE, /* neither the host's nor that of another container */
};

static const struct {
	const char *field; /* for the record */
	const char *part;  /* of both: HostConfig, or "" for the request's own and the answer's Config */
	const char *key;
	enum rule rule;
} rows[] = {
	{"user", "", "User", SAME_TEXT},
	{"work_dir", "", "WorkingDir", SAME_TEXT},
	{"hostname", "", "Hostname", SAME_TEXT},
	{"env", "", "Env", HOLDS_ENV},
	{"labels", "", "Labels", SAME_LABELS},
	{"privileged", "HostConfig", "Privileged", SAME_FLAG},
	{"read_only_root", "HostConfig", "ReadonlyRootfs", SAME_FLAG},
	{"no_new_privileges", "HostConfig", "SecurityOpt", HOLDS},
	{"capabilities", "HostConfig", "CapAdd", WITHIN},
	{"groups", "HostConfig", "GroupAdd", EMPTY},
	{"network", "HostConfig", "NetworkMode", SAME_NETWORK},
	{"devices", "HostConfig", "Devices", NOTHING},
	{"devices", "HostConfig", "DeviceRequests", NOTHING},
	{"devices", "HostConfig", "DeviceCgroupRules", NOTHING},
	{"pid_namespace", "HostConfig", "PidMode", OWN_NAMESPACE},
	{"ipc_namespace", "HostConfig", "IpcMode", OWN_NAMESPACE},
	{"uts_namespace", "HostConfig", "UTSMode", OWN_NAMESPACE},
	{"user_namespace", "HostConfig", "UsernsMode", OWN_NAMESPACE},
	{"memory", "HostConfig", "Memory", AT_MOST},
	{"memory_swap", "HostConfig", "MemorySwap", AT_MOST},
	{"oom_kill", "HostConfig", "OomKillDisable", SAME_FLAG},
	{"cpu", "HostConfig", "NanoCpus", SAME_CPU},
	{"cpu_shares", "HostConfig", "CpuShares", SAME_NUMBER},
	{"pids", "HostConfig", "PidsLimit", AT_MOST},
	{"security", "HostConfig", "SecurityOpt", CONFINED},
	{"kernel_paths", "HostConfig", "MaskedPaths", NOT_EMPTIED}, /* podman describes neither list */
	{"kernel_paths", "HostConfig", "ReadonlyPaths", NOT_EMPTIED},
	{"restart_policy", "HostConfig", "RestartPolicy", NO_RESTARTS},
	{"auto_remove", "HostConfig", "AutoRemove", SAME_FLAG},
};

static bool has_text(const json_t *list, const char *text)
{
	const json_t *one;
	size_t i;

	json_array_foreach (list, i, one)
		if (json_string_value(one) && str_eq(json_string_value(one), text))
			return true;
	return false;
}

/* podman describes a capability beyond its defaults without CAP_. */
static bool has_capability(const json_t *list, const char *name)
{
	char full[64];

	return has_text(list, name) ||
	       (str_join(full, sizeof(full), "CAP_", name) >= 0 && has_text(list, full));
}

/* The first capability of @list that is not in @other; NULL: all are. */
static const char *missing_capability(const json_t *list, const json_t *other)
{
	const json_t *one;
	size_t i;

	json_array_foreach (list, i, one)
		if (json_string_value(one) && !has_capability(other, json_string_value(one)))
			return json_string_value(one);
	return NULL;
}

/* The first text of @asked that is not in @found; NULL: all are. One pass over @found, which an image can
 * fill with as many variables as an answer has room for. */
static const char *text_not_held(const json_t *asked, const json_t *found)
{
	cleanup(json_decrefp) json_t *left = json_object();
	const json_t *one;
	size_t i;

	json_array_foreach (asked, i, one)
		if (json_object_set_new(left, json_string_value(one), json_true()) < 0)
			return json_string_value(one);
	json_array_foreach (found, i, one)
		if (json_is_string(one))
			(void)json_object_del(left, json_string_value(one));
	json_array_foreach (asked, i, one)
		if (json_object_get(left, json_string_value(one)))
			return json_string_value(one);
	return NULL;
}

static bool differ_in_env(struct readback_fault *ret, const char *field, const char *variable)
{
	(void)differ(ret, field, variable, "not there");
	ret->ordered[strcspn(ret->ordered, "=")] = '\0';
	return false;
}

static bool compare_labels(const char *field, const json_t *asked, const json_t *found,
			   struct readback_fault *ret)
{
	const json_t *value;
	const char *key;

	json_object_foreach ((json_t *)(uintptr_t)asked, key, value)
		if (!json_equal(value, json_object_get(found, key)))
			return differ(ret, field, json_string_value(value), text_at(found, key));
	return true;
}

/* @rounding the found number may be smaller by so much */
static bool compare_number(const char *field, const json_t *asked, const json_t *found, json_int_t rounding,
			   struct readback_fault *ret)
{
	json_int_t want = json_integer_value(asked);
	json_int_t have = json_integer_value(found);
	char ordered[32];
	char got[32];

	if (!json_is_integer(asked) || have == want || (have > 0 && have < want && want - have <= rounding))
		return true;
	(void)snprintf(ordered, sizeof(ordered), "%lld", (long long)want);
	(void)snprintf(got, sizeof(got), "%lld", (long long)have);
	return differ(ret, field, ordered, got);
}

static bool compare_network(const char *field, const char *asked, const char *found,
			    struct readback_fault *ret)
{
	if (str_eq(asked, found) ||
	    (str_starts_with(asked, "container:") && str_starts_with(found, "container:")))
		return true;
	return differ(ret, field, asked, found);
}

/* "seccomp=unconfined", "label=disable", "unmask=ALL", also with a colon. */
static bool compare_confinement(const char *field, const json_t *found, struct readback_fault *ret)
{
	static const char *const words[] = {"unconfined", "disable", "unmask"};
	const json_t *one;
	size_t i;

	json_array_foreach (found, i, one)
		for (size_t k = 0; json_is_string(one) && k < ARRAY_SIZE(words); k++)
			if (strstr(json_string_value(one), words[k]))
				return differ(ret, field, "not asked for", json_string_value(one));
	return true;
}

static bool compare_namespace(const char *field, const char *found, struct readback_fault *ret)
{
	if (str_eq(found, "host") || strchr(found, ':'))
		return differ(ret, field, "private", found);
	return true;
}

static bool compare_row(const struct readback *readback, size_t i, const json_t *inspected,
			struct readback_fault *ret)
{
	const char *field = rows[i].field, *key = rows[i].key;
	bool is_host = rows[i].part[0] != '\0';
	const json_t *asked = json_object_get(is_host ? host_of(readback->asked) : readback->asked, key);
	const json_t *found =
		json_object_get(is_host ? host_of(inspected) : json_object_get(inspected, "Config"), key);
	const char *asked_text = json_is_string(asked) ? json_string_value(asked) : "";
	const char *found_text = json_is_string(found) ? json_string_value(found) : "";
	const char *other;

	switch (rows[i].rule) {
	case SAME_TEXT:
		return asked_text[0] == '\0' || str_eq(asked_text, found_text) ||
		       differ(ret, field, asked_text, found_text);
	case SAME_FLAG:
		return json_is_true(asked) == json_is_true(found) ||
		       differ(ret, field, json_is_true(asked) ? "true" : "false",
			      json_is_true(found) ? "true" : "false");
	case SAME_NUMBER:
		return compare_number(field, asked, found, 0, ret);
	case AT_MOST:
		return compare_number(field, asked, found, json_integer_value(asked), ret);
	case SAME_CPU:
		return compare_number(field, asked, found, CPU_ROUNDING_NS, ret);
	case SAME_NETWORK:
		return compare_network(field, asked_text, found_text, ret);
	case WITHIN:
		other = missing_capability(found, asked);
		return !other || is_privileged(readback) || differ(ret, field, "not asked for", other);
	case HOLDS:
		other = text_not_held(asked, found);
		return !other || differ(ret, field, other, "not there");
	case HOLDS_ENV:
		other = text_not_held(asked, found);
		return !other || differ_in_env(ret, field, other);
	case SAME_LABELS:
		return compare_labels(field, asked, found, ret);
	case NOTHING:
		return json_array_size(found) == 0 || is_privileged(readback) ||
		       differ(ret, field, "none", key);
	case EMPTY:
		return json_array_size(found) == 0 || differ(ret, field, "none", key);
	case CONFINED:
		return is_privileged(readback) || compare_confinement(field, found, ret);
	case NOT_EMPTIED:
		return !json_is_array(found) || json_array_size(found) > 0 || is_privileged(readback) ||
		       differ(ret, field, key, "not there");
	case NO_RESTARTS:
		other = text_at(found, "Name");
		return other[0] == '\0' || str_eq(other, "no") || differ(ret, field, "no", other);
	case OWN_NAMESPACE:
		return compare_namespace(field, found_text, ret);
	}
	return true;
}

static const struct wanted *find_target(const struct readback *readback, const char *target)
{
	for (size_t i = 0; i < readback->n; i++)
		if (str_eq(readback->mounts[i].target, target))
			return &readback->mounts[i];
	return NULL;
}

static bool is_asked_read_only(const struct readback *readback, const struct wanted *wanted)
{
	const json_t *mounts = json_object_get(host_of(readback->asked), "Mounts");
	size_t i = (size_t)(wanted - readback->mounts);

	return json_is_true(json_object_get(json_array_get(mounts, i), "ReadOnly"));
}

/* A bind of the engine's answer. */
static bool compare_bind(const struct readback *readback, const json_t *mount, struct readback_fault *ret)
{
	const char *target = text_at(mount, "Destination");
	const struct wanted *wanted = find_target(readback, target);
	bool is_rw = json_is_true(json_object_get(mount, "RW"));

	if (!wanted)
		return differ(ret, "mount", "not asked for", target);
	if (!str_eq(text_at(mount, "Source"), wanted->source))
		return differ(ret, "mount_source", wanted->source, text_at(mount, "Source"));
	if (is_rw == is_asked_read_only(readback, wanted))
		return differ(ret, "mount_rw", is_rw ? "ro" : "rw", is_rw ? "rw" : "ro");
	if (!str_eq(text_at(mount, "Propagation"), wanted->propagation))
		return differ(ret, "mount_propagation", wanted->propagation, text_at(mount, "Propagation"));
	return true;
}

static bool is_of_kernel(const char *point)
{
	return path_is_within(point, "/proc") || path_is_within(point, "/sys") ||
	       path_is_within(point, "/dev");
}

/* The host would keep it: it is within a bidirectional mount, or a link in another one could lead it there.
 */
static bool reaches_the_host(const struct readback *readback, const char *target)
{
	bool is_shared = false, is_within = false;

	for (size_t i = 0; i < readback->n; i++) {
		is_shared |= str_eq(readback->mounts[i].propagation, "rshared");
		is_within |= path_is_within(target, readback->mounts[i].target);
	}
	return is_shared && is_within;
}

/* Keeps a volume that the image declares: a folder of the engine's own with a random name. It is writable
 * without a bound, which read_only_root promises that nothing is. */
static bool keep_image_volume(struct readback *readback, const json_t *mount, struct readback_fault *ret)
{
	const char *name = text_at(mount, "Name"), *target = text_at(mount, "Destination");

	if (json_is_true(json_object_get(host_of(readback->asked), "ReadonlyRootfs")))
		return differ(ret, "read_only_root", "no volume of the image", target);
	if (!path_is_normal(target) || str_eq(target, "/") || is_of_kernel(target) ||
	    reaches_the_host(readback, target))
		return differ(ret, "mount", "no volume of the image there", target);
	if (!str_eq(text_at(mount, "Type"), "volume") || strlen(name) != 64 ||
	    strspn(name, "0123456789abcdef") != 64 || readback->n_image_volumes == IMAGE_VOLUMES_MAX ||
	    str_copy(readback->image_volumes[readback->n_image_volumes], PATH_MAX, target) < 0)
		return differ(ret, "mount", "not asked for", target);
	readback->n_image_volumes++;
	return true;
}

/* The image's own check must be off, and each engine describes it so. */
static bool compare_check(const json_t *inspected, struct readback_fault *ret)
{
	const json_t *check = json_object_get(json_object_get(inspected, "Config"), "Healthcheck");
	const char *word = json_string_value(json_array_get(json_object_get(check, "Test"), 0));

	return (word && str_eq(word, "NONE")) ||
	       differ(ret, "healthcheck", "NONE", word ? word : "not there");
}

bool readback_inspect(struct readback *readback, const json_t *inspected, struct readback_fault *ret)
{
	const json_t *mounts = json_object_get(inspected, "Mounts");
	const json_t *mount;
	size_t n_binds = 0;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++)
		if (!compare_row(readback, i, inspected, ret))
			return false;
	if (!compare_check(inspected, ret))
		return false;
	readback->n_image_volumes = 0;
	json_array_foreach (mounts, i, mount) {
		bool is_bind = str_eq(text_at(mount, "Type"), "bind");

		if (is_bind ? !compare_bind(readback, mount, ret) : !keep_image_volume(readback, mount, ret))
			return false;
		n_binds += is_bind;
	}
	if (n_binds != readback->n)
		return differ(ret, "mount", "each once", "another number of them");
	return true;
}

static bool is_never_group(const struct readback_users *users, unsigned long gid)
{
	for (size_t i = 0; i < users->n_groups; i++)
		if (gid == users->never_groups[i])
			return true;
	return false;
}

/* A number as engines read it: with a sign or zeros before it, too. */
static bool read_id(const char *text, size_t n, long *ret)
{
	char number[32], *end;

	if (n == 0 || str_format(number, sizeof(number), "%.*s", (int)n, text) < 0)
		return false;
	*ret = strtol(number, &end, 10);
	return *end == '\0';
}

bool readback_image_user(const struct readback *readback, const json_t *inspected,
			 const struct readback_users *users, struct readback_fault *ret)
{
	const char *user = text_at(json_object_get(inspected, "Config"), "User");
	size_t n = strcspn(user, ":");
	bool is_number, is_root, is_never = false;
	long id = -1;

	if (text_at(readback->asked, "User")[0] != '\0')
		return true;
	is_number = read_id(user, n, &id);
	is_root = n == 0 || (is_number && id == 0) || (n == 4 && str_starts_with(user, "root"));
	for (size_t i = 0; i < users->n && is_number; i++)
		is_never = is_never || id == (long)users->never[i];
	if (user[n] == ':' && read_id(user + n + 1, strlen(user + n + 1), &id))
		is_never = is_never || is_never_group(users, (unsigned long)id);
	if (!is_never && (!is_root || users->is_root_named))
		return true;
	return differ(ret, "user", "allowed", is_root ? "root" : user);
}

/* Podman's own, and those that only describe the image. */
static bool is_harmless_annotation(const char *key)
{
	static const char *const keys[] = {
		"io.container.manager",
		"io.kubernetes.cri-o.TTY",
		"io.podman.annotations.autoremove",
		"io.podman.annotations.init",
		"io.podman.annotations.privileged",
		"io.podman.annotations.publish-all",
	};
	static const char *const descriptions[] = {"org.opencontainers.image.",
						   "com.docker.official-images."};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (str_eq(key, keys[i]))
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(descriptions); i++)
		if (str_starts_with(key, descriptions[i]))
			return true;
	return false;
}

bool readback_annotations(const json_t *inspected, struct readback_fault *ret)
{
	const json_t *config = json_object_get(inspected, "Config");
	const json_t *value;
	const char *key;

	if (!json_is_object(config))
		return differ(ret, "annotations", "a description", "not readable");
	json_object_foreach ((json_t *)(uintptr_t)json_object_get(config, "Annotations"), key, value)
		if (!is_harmless_annotation(key))
			return differ(ret, "annotations", "podman's own", key);
	return true;
}

/* While podman made the container, another mount or a bare folder may have been at the source. */
static bool compare_options(const struct wanted *wanted, const json_t *mounts, struct readback_fault *ret)
{
	char ordered[FLAGS_SIZE], found[FLAGS_SIZE];
	unsigned int flags = 0;
	const json_t *mount;
	size_t i;

	json_array_foreach (mounts, i, mount) {
		const json_t *options = json_object_get(mount, "Options");

		if (str_eq(text_at(mount, "Destination"), wanted->target))
			flags = (json_is_true(json_object_get(mount, "RW")) ? 0U : READ_ONLY) |
				(has_text(options, "nosuid") ? NO_SUID : 0U) |
				(has_text(options, "nodev") ? NO_DEV : 0U) |
				(has_text(options, "noexec") ? NO_EXEC : 0U);
	}
	return (wanted->place.flags & ~flags) == 0 ||
	       differ(ret, "mount_flags", flags_text(wanted->place.flags, ordered), flags_text(flags, found));
}

bool readback_options(const struct readback *readback, const json_t *inspected, struct readback_fault *ret)
{
	for (size_t i = 0; i < readback->n; i++)
		if (readback->mounts[i].is_volume &&
		    !compare_options(&readback->mounts[i], json_object_get(inspected, "Mounts"), ret))
			return false;
	return true;
}

/* --- the kernel's account ----------------------------------------------------------------------------------
 */

struct walk {
	struct readback *readback;
	struct readback_fault *fault;
	struct place root; /* of the host */
	struct place dev;  /* likewise, its /dev */
	struct place shm;  /* likewise, its /dev/shm: of its IPC namespace */
};

static bool has_propagation(const struct mount_entry *entry, const char *wanted)
{
	if (str_eq(wanted, "rshared"))
		return entry->peer_group != 0;
	if (str_eq(wanted, "rslave"))
		return entry->peer_group == 0 && entry->master != 0;
	return entry->peer_group == 0 && entry->master == 0;
}

static const char *propagation_text(const struct mount_entry *entry)
{
	return entry->peer_group ? "shared" : entry->master ? "slave" : "private";
}

/* Compares @entry, which is mounted at the target of @wanted, with it. */
static bool compare_mount(const struct wanted *wanted, const struct mount_entry *entry,
			  struct readback_fault *ret)
{
	unsigned int flags = mounts_flags(entry->options);
	char ordered[READBACK_TEXT_SIZE], found[READBACK_TEXT_SIZE];
	char ordered_flags[FLAGS_SIZE], found_flags[FLAGS_SIZE];

	if (!is_same_place(&wanted->place, entry)) {
		ordered_text(ordered, &wanted->place);
		place_text(found, entry->dev_major, entry->dev_minor, entry->root);
		return differ(ret, "mount_source", ordered, found);
	}
	if ((flags & wanted->flags) != wanted->flags)
		return differ(ret, "mount_flags", flags_text(wanted->flags, ordered_flags),
			      flags_text(flags, found_flags));
	if (!has_propagation(entry, wanted->propagation))
		return differ(ret, "mount_propagation", wanted->propagation, propagation_text(entry));
	return true;
}

/* Compares a mount with its request. The last one at a target wins, because it covers the others. */
static int visit_targets(const struct mount_entry *entry, void *userdata)
{
	struct walk *walk = userdata;

	for (size_t i = 0; i < walk->readback->n; i++) {
		struct wanted *wanted = &walk->readback->mounts[i];

		if (!str_eq(wanted->target, entry->point))
			continue;
		wanted->is_right = compare_mount(wanted, entry, walk->fault);
		(void)str_copy(wanted->at, sizeof(wanted->at), entry->point);
		if (!wanted->is_right)
			return 1;
	}
	return 0;
}

/* A link of the image leads to where the mount is. */
static int visit_links(const struct mount_entry *entry, void *userdata)
{
	struct walk *walk = userdata;
	struct readback_fault ignored;

	if (!path_is_normal(entry->point) || is_of_kernel(entry->point) || str_eq(entry->point, "/") ||
	    find_target(walk->readback, entry->point))
		return 0;
	for (size_t i = 0; i < walk->readback->n; i++) {
		struct wanted *wanted = &walk->readback->mounts[i];

		if (wanted->at[0] != '\0' || !compare_mount(wanted, entry, &ignored))
			continue;
		wanted->is_right = true;
		(void)str_copy(wanted->at, sizeof(wanted->at), entry->point);
		return 0;
	}
	return 0;
}

/* Is it part of a tree that was asked for? */
static bool is_ordered(const struct readback *readback, const char *point)
{
	for (size_t i = 0; i < readback->n; i++)
		if (str_eq(readback->mounts[i].at, point) ||
		    (readback->mounts[i].is_recursive && path_is_normal(readback->mounts[i].at) &&
		     path_is_within(point, readback->mounts[i].at)))
			return true;
	return false;
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Files that engines put into each container: of the same name in the engine's own folder. */
static bool is_of_engine(const struct readback *readback, const struct mount_entry *entry)
{
	static const char *const files[] = {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf",
					    "/run/.containerenv", "/run/secrets"};
	static const char *const inits[] = {"/dev/init", "/run/podman-init", "/sbin/docker-init"};
	static const char *const scratch[] = {"/tmp", "/var/tmp", "/run"}; /* podman's, of a read-only root */
	bool is_read_only = json_is_true(json_object_get(host_of(readback->asked), "ReadonlyRootfs"));
	bool has_init = json_is_true(json_object_get(host_of(readback->asked), "Init"));

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (str_eq(entry->point, files[i]))
			return str_eq(last_part(entry->root), last_part(files[i]));
	for (size_t i = 0; has_init && i < ARRAY_SIZE(inits); i++)
		if (str_eq(entry->point, inits[i]))
			return strstr(last_part(entry->root), "init") ||
			       strstr(last_part(entry->root), "catatonit");
	for (size_t i = 0; is_read_only && i < ARRAY_SIZE(scratch); i++)
		if (str_eq(entry->point, scratch[i]))
			return str_eq(entry->type, "tmpfs") && str_eq(entry->root, "/");
	for (size_t i = 0; i < readback->n_image_volumes; i++)
		if (str_eq(entry->point, readback->image_volumes[i]))
			return str_eq(last_part(entry->root), "_data");
	return false;
}

/* File systems of the kernel's own in /proc, /sys and /dev, and the device that hides a file. */
static bool is_of_runtime(const struct walk *walk, const struct mount_entry *entry)
{
	static const char *const types[] = {"proc",	 "sysfs",     "cgroup",	    "cgroup2",	"devpts",
					    "mqueue",	 "tmpfs",     "securityfs", "debugfs",	"tracefs",
					    "pstore",	 "bpf",	      "efivarfs",   "configfs", "fusectl",
					    "selinuxfs", "hugetlbfs", "devtmpfs"};
	bool is_device_tree = walk->dev.is_known && path_is_within(entry->point, "/dev") &&
			      entry->dev_major == walk->dev.dev_major &&
			      entry->dev_minor == walk->dev.dev_minor;

	if (!is_of_kernel(entry->point))
		return false;
	if (is_device_tree && !is_privileged(walk->readback))
		return false;
	if (str_eq(entry->type, "tmpfs") || str_eq(entry->type, "devtmpfs"))
		return str_eq(entry->root, "/") || str_eq(entry->root, "/null");
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (str_eq(entry->type, types[i]))
			return true;
	return false;
}

/* podman shares the host's IPC namespace and describes it as the container's own. */
static bool is_hosts_memory(const struct walk *walk, const struct mount_entry *entry)
{
	return walk->shm.is_known && str_eq(entry->type, "tmpfs") &&
	       entry->dev_major == walk->shm.dev_major && entry->dev_minor == walk->shm.dev_minor;
}

static int visit_rest(const struct mount_entry *entry, void *userdata)
{
	struct walk *walk = userdata;
	const char *field =
		path_is_normal(entry->point) && path_is_within(entry->point, "/dev") ? "devices" : "mount";
	bool is_root = str_eq(entry->point, "/");

	if (is_root && !is_same_place(&walk->root, entry))
		return 0;
	if (is_hosts_memory(walk, entry) && !is_ordered(walk->readback, entry->point)) {
		(void)differ(walk->fault, "ipc_namespace", "private", entry->point);
		return 1;
	}
	if (!is_root && path_is_normal(entry->point) &&
	    (is_ordered(walk->readback, entry->point) || is_of_engine(walk->readback, entry) ||
	     is_of_runtime(walk, entry)))
		return 0;
	(void)differ(walk->fault, field, "not asked for", entry->point);
	return 1;
}

bool readback_mounts(struct readback *readback, const char *mountinfo_path, const char *host_path,
		     struct readback_fault *ret)
{
	struct walk walk = {.readback = readback, .fault = ret};
	int r = find_place(host_path, "/", true, &walk.root);

	for (size_t i = 0; i < readback->n; i++) {
		readback->mounts[i].is_right = false;
		readback->mounts[i].at[0] = '\0';
	}
	if (r == 0)
		r = find_place(host_path, "/dev", true, &walk.dev);
	if (r == 0)
		r = find_place(host_path, "/dev/shm", true, &walk.shm);
	if (r == 0)
		r = mounts_read(mountinfo_path, visit_targets, &walk);
	if (r == 0)
		r = mounts_read(mountinfo_path, visit_links, &walk);
	for (size_t i = 0; i < readback->n && r == 0; i++)
		if (!readback->mounts[i].is_right)
			return differ(ret, "mount", readback->mounts[i].target, "not there");
	if (r == 0)
		r = mounts_read(mountinfo_path, visit_rest, &walk);
	if (r < 0)
		return differ(ret, "mount", "a mount table", "none that can be read");
	return r == 0;
}

/* --- the kernel's settings in /proc and /sys --- */

/* podman and Docker hide or protect these. */
static const struct {
	const char *path;
	bool is_hidden; /* else it is read-only */
} kernel_paths[] = {
	{"/proc/acpi", true},	     {"/proc/kcore", true},
	{"/proc/keys", true},	     {"/proc/latency_stats", true},
	{"/proc/timer_list", true},  {"/proc/timer_stats", true},
	{"/proc/sched_debug", true}, {"/proc/scsi", true},
	{"/sys/firmware", true},     {"/proc/bus", false},
	{"/proc/fs", false},	     {"/proc/irq", false},
	{"/proc/sys", false},	     {"/proc/sysrq-trigger", false},
};

struct kernel_walk {
	bool is_right[ARRAY_SIZE(kernel_paths)];
	struct readback_fault *fault;
};

/* The last mount at a path covers the others. */
static int visit_kernel(const struct mount_entry *entry, void *userdata)
{
	struct kernel_walk *walk = userdata;
	bool is_read_only = mounts_flags(entry->options) & READ_ONLY;
	bool is_cover = str_eq(entry->type, "tmpfs") || str_eq(entry->type, "devtmpfs");

	for (size_t i = 0; i < ARRAY_SIZE(kernel_paths); i++)
		if (str_eq(entry->point, kernel_paths[i].path))
			walk->is_right[i] = kernel_paths[i].is_hidden ? is_cover : is_read_only;
	if (is_read_only || is_cover || !path_is_normal(entry->point) ||
	    !path_is_within(entry->point, "/sys"))
		return 0;
	(void)differ(walk->fault, "kernel_paths", "ro", entry->point);
	return 1;
}

bool readback_kernel(const struct readback *readback, const char *mountinfo_path, const char *root,
		     struct readback_fault *ret)
{
	struct kernel_walk walk = {.fault = ret};
	int r = is_privileged(readback) ? 0 : mounts_read(mountinfo_path, visit_kernel, &walk);

	for (size_t i = 0; r == 0 && !is_privileged(readback) && i < ARRAY_SIZE(kernel_paths); i++) {
		char path[PATH_MAX];
		struct stat st;

		if (walk.is_right[i] ||
		    str_format(path, sizeof(path), "%s%s", root, kernel_paths[i].path) < 0 ||
		    lstat(path, &st) < 0)
			continue;
		return differ(ret, "kernel_paths", kernel_paths[i].is_hidden ? "hidden" : "ro",
			      kernel_paths[i].path);
	}
	if (r < 0)
		return differ(ret, "kernel_paths", "a mount table", "not readable");
	return r == 0;
}

/* --- rights ------------------------------------------------------------------------------------------------
 */

/* linux/capability.h, by number. */
static const char *const capabilities[CAPABILITIES_N] = {"CAP_CHOWN",
							 "CAP_DAC_OVERRIDE",
							 "CAP_DAC_READ_SEARCH",
							 "CAP_FOWNER",
							 "CAP_FSETID",
							 "CAP_KILL",
							 "CAP_SETGID",
							 "CAP_SETUID",
							 "CAP_SETPCAP",
							 "CAP_LINUX_IMMUTABLE",
							 "CAP_NET_BIND_SERVICE",
							 "CAP_NET_BROADCAST",
							 "CAP_NET_ADMIN",
							 "CAP_NET_RAW",
							 "CAP_IPC_LOCK",
							 "CAP_IPC_OWNER",
							 "CAP_SYS_MODULE",
							 "CAP_SYS_RAWIO",
							 "CAP_SYS_CHROOT",
							 "CAP_SYS_PTRACE",
							 "CAP_SYS_PACCT",
							 "CAP_SYS_ADMIN",
							 "CAP_SYS_BOOT",
							 "CAP_SYS_NICE",
							 "CAP_SYS_RESOURCE",
							 "CAP_SYS_TIME",
							 "CAP_SYS_TTY_CONFIG",
							 "CAP_MKNOD",
							 "CAP_LEASE",
							 "CAP_AUDIT_WRITE",
							 "CAP_AUDIT_CONTROL",
							 "CAP_SETFCAP",
							 "CAP_MAC_OVERRIDE",
							 "CAP_MAC_ADMIN",
							 "CAP_SYSLOG",
							 "CAP_WAKE_ALARM",
							 "CAP_BLOCK_SUSPEND",
							 "CAP_AUDIT_READ",
							 "CAP_PERFMON",
							 "CAP_BPF",
							 "CAP_CHECKPOINT_RESTORE"};

static uint64_t asked_capabilities(const struct readback *readback)
{
	const json_t *list = json_object_get(host_of(readback->asked), "CapAdd");
	uint64_t mask = 0;

	if (is_privileged(readback))
		return UINT64_MAX;
	for (size_t i = 0; i < CAPABILITIES_N; i++)
		if (has_text(list, capabilities[i]))
			mask |= UINT64_C(1) << i;
	return mask;
}

/* The value of a line "KEY:\tVALUE"; NULL: there is no such line. */
static const char *line_of(const char *status, const char *key)
{
	size_t n = strlen(key);

	for (const char *at = status; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
		if (strncmp(at, key, n) == 0 && at[n] == ':')
			return at + n + 1;
	return NULL;
}

static bool compare_capabilities(const char *status, uint64_t asked, struct readback_fault *ret)
{
	static const char *const sets[] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"};

	for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
		const char *line = line_of(status, sets[i]);
		uint64_t found = line ? strtoull(line, NULL, 16) : UINT64_MAX;
		char ordered[32], got[48];

		if ((found & ~asked) == 0)
			continue;
		(void)snprintf(ordered, sizeof(ordered), "%llx", (unsigned long long)asked);
		(void)snprintf(got, sizeof(got), "%s=%llx", sets[i], (unsigned long long)found);
		return differ(ret, "capabilities", ordered, got);
	}
	return true;
}

/* The real, effective, saved and file system id of the "Uid:" or "Gid:" line. */
static bool read_ids(const char *line, unsigned long ret[4])
{
	for (size_t i = 0; i < 4; i++) {
		char *end;

		ret[i] = strtoul(line, &end, 10);
		if (end == line)
			return false;
		line = end;
	}
	return true;
}

/* Compares the uid with "USER" or "USER:GROUP", a number or name, or the image's own. A number must be equal;
 * uid 0 is only allowed for the names of 0. */
static bool compare_user(const char *asked, const char *status, const struct readback_users *users,
			 struct readback_fault *ret)
{
	const char *line = line_of(status, "Uid");
	unsigned long ids[4] = {0, 0, 0, 0};
	char name[64], found[64];
	uint32_t number = 0;
	bool is_right;

	(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(asked, ":"), asked);
	if (!line || !read_ids(line, ids))
		return differ(ret, "user", asked, "none that can be read");
	(void)snprintf(found, sizeof(found), "%lu", ids[0]);
	is_right = ids[0] == ids[1] && ids[0] == ids[2] && ids[0] == ids[3];
	if (parse_u32(name, 0, UINT32_MAX, &number) == 0)
		is_right = is_right && ids[0] == number;
	else
		is_right = is_right &&
			   (ids[0] != 0 || str_eq(name, "root") || (name[0] == '\0' && users->is_root_named));
	for (size_t i = 0; i < users->n; i++)
		is_right = is_right && ids[0] != users->never[i];
	return is_right || differ(ret, "user", asked, found);
}

/* Compares the gid with the group of "USER:GROUP", a number or name. gid 0 is only allowed for the names of
 * 0, or if the image decides. */
static bool compare_group(const char *group, const char *status, const struct readback_users *users,
			  unsigned long *ret_gid, struct readback_fault *ret)
{
	const char *line = line_of(status, "Gid");
	unsigned long ids[4] = {0, 0, 0, 0};
	uint32_t number = 0;
	char found[64];
	bool is_right;

	if (!line || !read_ids(line, ids))
		return differ(ret, "group", group, "not readable");
	(void)snprintf(found, sizeof(found), "%lu", ids[0]);
	is_right = ids[0] == ids[1] && ids[0] == ids[2] && ids[0] == ids[3] && !is_never_group(users, ids[0]);
	if (parse_u32(group, 0, UINT32_MAX, &number) == 0)
		is_right = is_right && ids[0] == number;
	else
		is_right = is_right && (ids[0] != 0 || group[0] == '\0' || str_eq(group, "root"));
	*ret_gid = ids[0];
	return is_right || differ(ret, "group", group, found);
}

/* A group that the user names is the only one. Without it the image's files name the groups, which this
 * program cannot read. */
static bool compare_groups(const char *asked, const char *status, const struct readback_users *users,
			   struct readback_fault *ret)
{
	const char *colon = strchr(asked, ':');
	const char *at = line_of(status, "Groups");
	unsigned long gid = 0;
	char found[32];

	if (!compare_group(colon ? colon + 1 : "", status, users, &gid, ret))
		return false;
	if (!at)
		return differ(ret, "groups", asked, "not readable");
	for (at += strspn(at, " \t"); *at >= '0' && *at <= '9'; at += strspn(at, " \t")) {
		char *end;
		unsigned long more = strtoul(at, &end, 10);

		at = end;
		if ((!colon || more == gid) && !is_never_group(users, more))
			continue;
		(void)snprintf(found, sizeof(found), "%lu", more);
		return differ(ret, "groups", asked, found);
	}
	return true;
}

bool readback_rights(const struct readback *readback, const char *status, const struct readback_users *users,
		     struct readback_fault *ret)
{
	const char *asked = text_at(readback->asked, "User");
	const char *line = line_of(status, "NoNewPrivs");

	if (!line || strtol(line, NULL, 10) != 1)
		return differ(ret, "no_new_privileges", "1", line ? "0" : "not known");
	return compare_capabilities(status, asked_capabilities(readback), ret) &&
	       compare_user(asked, status, users, ret) && compare_groups(asked, status, users, ret);
}

/* Each network namespace has the first one, and the others if the kernel has their modules. */
static bool is_own_device(const char *name)
{
	static const char *const names[] = {"lo",      "tunl0",	  "sit0",     "gre0",	 "gretap0",
					    "erspan0", "ip_vti0", "ip6_vti0", "ip6tnl0", "ip6gre0"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_eq(names[i], name))
			return true;
	return false;
}

/* Finds a device that leads out of the namespace. "  eth0: 0 ...", after two lines of titles */
static bool find_device(const char *devices, char ret[static IF_NAMESIZE])
{
	const char *line = strchr(devices, '\n');

	while (line && (line = strchr(line + 1, '\n')) && line[1] != '\0') {
		const char *name = line + 1 + strspn(line + 1, " ");

		(void)snprintf(ret, IF_NAMESIZE, "%.*s", (int)strcspn(name, ":\n"), name);
		if (!is_own_device(ret))
			return true;
	}
	return false;
}

bool readback_network(const struct readback *readback, const struct readback_networks *networks,
		      struct readback_fault *ret)
{
	const char *asked = text_at(host_of(readback->asked), "NetworkMode");
	bool is_host = networks->task == networks->host;
	bool is_none = str_eq(asked, "none");
	char device[IF_NAMESIZE];

	if (networks->task == 0 || networks->host == 0 || (is_none && !networks->devices))
		return differ(ret, "network", asked, "not known");
	if (is_host != str_eq(asked, "host"))
		return differ(ret, "network", asked, is_host ? "the host's" : "another one");
	if (is_none && find_device(networks->devices, device))
		return differ(ret, "network", asked, device);
	if (str_starts_with(asked, "container:") && networks->task != networks->holder)
		return differ(ret, "network", asked, "another one");
	return true;
}

/* How each limit is found in cgroup v2. */
static bool read_limit(const struct readback *readback, const char *key, const char *text, uint64_t *ret)
{
	json_int_t memory = json_integer_value(json_object_get(host_of(readback->asked), "Memory"));
	const char *blank = strchr(text, ' ');
	uint64_t quota = 0, period = 0;
	char first[32];

	if (str_eq(key, "NanoCpus")) {
		if (!blank || str_format(first, sizeof(first), "%.*s", (int)(blank - text), text) < 0 ||
		    parse_u64(first, 0, UINT32_MAX, &quota) < 0 ||
		    parse_u64(blank + 1, 1, UINT32_MAX, &period) < 0)
			return false;
		*ret = quota * NS_PER_SECOND / period;
		return true;
	}
	if (parse_u64(text, 0, INT64_MAX, ret) < 0)
		return false;
	*ret += str_eq(key, "MemorySwap") ? (uint64_t)memory : 0; /* it counts both together */
	return true;
}

bool readback_limit(const struct readback *readback, const char *key, const char *text,
		    struct readback_fault *ret)
{
	static const struct {
		const char *key, *field;
		uint64_t rounding;
	} limits[] = {{"Memory", "memory", 0},
		      {"MemorySwap", "memory_swap", 0},
		      {"NanoCpus", "cpu", CPU_ROUNDING_UP},
		      {"PidsLimit", "pids", 0}};
	const json_t *asked = json_object_get(host_of(readback->asked), key);
	char ordered[32], found[64];
	uint64_t number = 0;
	size_t i = 0;

	while (i < ARRAY_SIZE(limits) && !str_eq(limits[i].key, key))
		i++;
	if (!json_is_integer(asked) || i == ARRAY_SIZE(limits))
		return true;
	(void)snprintf(ordered, sizeof(ordered), "%lld", (long long)json_integer_value(asked));
	(void)snprintf(found, sizeof(found), "%.*s", (int)strcspn(text, "\n"), text);
	if (read_limit(readback, key, found, &number) &&
	    number <= (uint64_t)json_integer_value(asked) + limits[i].rounding)
		return true;
	return differ(ret, limits[i].field, ordered, found);
}

/* crun makes a cgroup below that of systemd, and may leave the limit to the upper one. */
static bool is_limited(const struct readback *readback, const char *root, const char *cgroup,
		       const char *file, const char *key, struct readback_fault *ret)
{
	char path[PATH_MAX], folder[PATH_MAX];
	bool is_visible = false;

	if (str_format(folder, sizeof(folder), "%s%s", root, cgroup) < 0)
		return true;
	for (char *slash; strlen(folder) > strlen(root) && (slash = strrchr(folder, '/')); *slash = '\0') {
		cleanup_free char *text = NULL;

		if (str_format(path, sizeof(path), "%s/%s", folder, file) < 0 ||
		    file_read(path, LIMIT_MAX, &text, NULL) < 0)
			continue;
		if (readback_limit(readback, key, text, ret))
			return true;
		is_visible = true;
	}
	return !is_visible;
}

bool readback_limits(const struct readback *readback, const char *root, const char *cgroup,
		     struct readback_fault *ret)
{
	static const struct {
		const char *file, *key;
	} files[] = {{"memory.max", "Memory"},
		     {"memory.swap.max", "MemorySwap"},
		     {"cpu.max", "NanoCpus"},
		     {"pids.max", "PidsLimit"}};
	const char *line = strstr(cgroup, "0::");
	char path[PATH_MAX];

	if (!line || str_format(path, sizeof(path), "%.*s", (int)strcspn(line + 3, "\n"), line + 3) < 0)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (!is_limited(readback, root, path, files[i].file, files[i].key, ret))
			return false;
	return true;
}
