/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* STAGE, class by class: op_stage.c is the frame, and each class of volume adds one struct source_class. */

#include "admission.h"
#include "attach.h"

enum { DEVICE_NAME_SIZE = 64 };

/* STAGE under construction. */
struct staging {
	struct helper *h;
	const struct mh_stage *req;
	const struct profile *profile;
	const struct source_class *class; /* NULL: csi, whose plugin mounts */
	const struct admission *admission;
	char source[MH_EXPORT_SIZE + 64]; /* what the mount table shall show; not of bind and csi */
	struct place origin; /* bind: the host's directory; block: only its device number; else nothing */
	const char *plugin;  /* csi: in whose folder the volume is; else empty */
	struct place folder; /* that folder; only csi */
	struct place target; /* where the volume is mounted or will be */
	enum ticket_propagation propagation;
};

struct source_class {
	/* Find what the request means before anything is made; or NULL. */
	struct outcome (*find)(struct staging *s);
	/* Make the detached mount with stage_attributes(). */
	struct outcome (*make)(const struct staging *s, int *ret_fd);
	/* The target has a mount of the device found, with the floor flags: is it of this source? Or NULL:
	 * any mount of the whole file system is. */
	bool (*is_same)(const struct staging *s, const struct mount_facts *facts);
	/* For filesystem_make(): options of the class; or NULL. Returns 0 or a negative errno. */
	int (*set_options)(const struct staging *s, int fs_fd);
	/* For filesystem_make(): instead of FSCONFIG_CMD_CREATE; or NULL. Returns 0 or a negative errno:
	 * -EBUSY when the device is mounted, -EXDEV when this kernel might open devices that are not
	 * allowed. */
	int (*create)(const struct staging *s, int fs_fd);
};

extern const struct source_class source_block;
extern const struct source_class source_tmpfs;
extern const struct source_class source_nfs4;
extern const struct source_class source_bind;

/** The directory of the host that @profile of class bind names. Every directory above it is root's, so that
 * only root chooses the mount. Nothing is mounted below: a clone would uncover the files under such a mount.
 * @ret must be released in any case. */
struct outcome host_volume_look(struct helper *h, const struct profile *profile, bool read_only,
				struct place *ret);

/** STAGE_FLOOR and what the request adds. */
unsigned int stage_attributes(const struct staging *s);

/** The common part of all classes that the kernel mounts by fsopen(2). */
struct outcome filesystem_make(const struct staging *s, int *ret_fd);

/** Set one option of the context @fs_fd; a flag when @value is NULL. Returns 0 or a negative errno. */
int filesystem_set(int fs_fd, const char *key, const char *value);

/** Pins the device node behind the link /dev/disk/@folder/@id, which only root can have made, and writes its
 * name in /dev. Returns 0 or a negative errno, -EINVAL for a link to elsewhere. */
int disk_find(const struct helper *h, const char *folder, const char *id,
	      char ret_name[static DEVICE_NAME_SIZE], struct place *ret);

/** Name of the device that the link text @target points to: "../../" and one `[a-z0-9-]+` that is shorter
 * than DEVICE_NAME_SIZE. Returns 0 or -EINVAL. Pure. */
int by_id_target(const char *target, char ret[static DEVICE_NAME_SIZE]);
