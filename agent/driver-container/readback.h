/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Compares the container that an engine made with the request: first by the engine's own description before
 * the container starts, then by the kernel's view of its first process.
 *
 * Both are compared with the request and with the host's mount table, so the engine's description alone is
 * never trusted. Functions are pure, except for the tables that they are given. */

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { READBACK_TEXT_SIZE = 192, READBACK_USERS_MAX = 8 };

/* The first difference: a keyword for the record, the ordered value, and the value found. */
struct readback_fault {
	char field[24];
	char ordered[READBACK_TEXT_SIZE];
	char found[READBACK_TEXT_SIZE];
};

/* Whose account and group no task may have. */
struct readback_users {
	uid_t never[READBACK_USERS_MAX];
	size_t n;
	gid_t never_groups[READBACK_USERS_MAX];
	size_t n_groups;
	bool is_root_named; /* root's file names uid 0: an image's own user may be it */
};

struct readback;

/** Looks up each source of @asked, the body of POST /containers/create, in the host's mount table.
 *
 * @mountinfo_path /proc/1/mountinfo
 * @publish_dir    a source below it keeps each flag of its mount in the container. If it is not mounted now,
 *                 this is no error, but each comparison of mounts fails
 * @drops_flags    the engine's read-only bind loses nosuid, nodev and noexec of its source: for a source
 *                 that is read-only itself, @asked is changed to request it without ReadOnly
 * @ret            owned by the caller, readback_free(); keeps a reference to @asked */
enum status readback_new(const char *mountinfo_path, const char *publish_dir, json_t *asked, bool drops_flags,
			 struct readback **ret, struct error *err);
void readback_free(struct readback *readback);

/** The body to ask for; borrowed. */
json_t *readback_asked(const struct readback *readback);

/* Each returns true where nothing differs, and fills @ret where something does. */

/** Is at each source still what was there? A table that cannot be read is a difference. */
bool readback_sources(const struct readback *readback, const char *mountinfo_path,
		      struct readback_fault *ret);

/** @inspected answer of GET /containers/NAME/json; volumes that the image declares are remembered */
bool readback_inspect(struct readback *readback, const json_t *inspected, struct readback_fault *ret);

/** May the image's own user, as the engine describes it, run here? It counts only if the request has no user.
 * The image's files decide whom a name means: that shows when the task runs. */
bool readback_image_user(const struct readback *readback, const json_t *inspected,
			 const struct readback_users *users, struct readback_fault *ret);

/** Runtimes obey annotations as root, such as sockets of the host or settings of its units, and podman takes
 * them from the image too.
 * @inspected podman's answer of GET /libpod/containers/NAME/json, before the first start */
bool readback_annotations(const json_t *inspected, struct readback_fault *ret);

/** Podman reads the flags of a mount's source when it makes the container, and sets them at each start: has
 * each volume the flags of its publish there?
 * @inspected likewise, before each start */
bool readback_options(const struct readback *readback, const json_t *inspected, struct readback_fault *ret);

/** @mountinfo_path of the container's first process, @host_path of the host */
bool readback_mounts(struct readback *readback, const char *mountinfo_path, const char *host_path,
		     struct readback_fault *ret);

/** Are the kernel's settings in /proc and /sys hidden or read-only? A privileged container may change them.
 * @mountinfo_path of the container's first process
 * @root           of this machine, "" in production: only paths that exist there are required */
bool readback_kernel(const struct readback *readback, const char *mountinfo_path, const char *root,
		     struct readback_fault *ret);

/** @status text of /proc/PID/status */
bool readback_rights(const struct readback *readback, const char *status, const struct readback_users *users,
		     struct readback_fault *ret);

/* Network namespaces, each by a number that is its own; 0: not known. */
struct readback_networks {
	uint64_t task;
	uint64_t host;
	uint64_t holder;     /* of the container whose network is joined */
	const char *devices; /* text of /proc/PID/net/dev; NULL: not known */
};

bool readback_network(const struct readback *readback, const struct readback_networks *networks,
		      struct readback_fault *ret);

/** @text of the control file of cgroup v2 for @key of HostConfig, such as "max\n", "4096\n" or, for NanoCpus,
 * "50000 100000\n" */
bool readback_limit(const struct readback *readback, const char *key, const char *text,
		    struct readback_fault *ret);

/** Is each limit that was asked for in force, in the cgroup of the process or in one above it? Where no file
 * of cgroup v2 shows it, only the engine's answer counts.
 * @root   /sys/fs/cgroup
 * @cgroup text of /proc/PID/cgroup */
bool readback_limits(const struct readback *readback, const char *root, const char *cgroup,
		     struct readback_fault *ret);
