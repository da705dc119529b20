/* SPDX-License-Identifier: Apache-2.0 */
#include "trees.h"

#include "base/id.h"
#include "base/names.h"
#include "base/parse.h"
#include "base/path.h"

#include <limits.h>
#include <linux/stat.h>
#include <string.h>

char *slot_name(uint8_t slot, char ret[static SLOT_NAME_SIZE])
{
	assert(slot <= MH_SLOT_MAX);
	(void)str_decimal(ret, SLOT_NAME_SIZE, slot);
	return ret;
}

enum { MARK_NAME_SIZE = SLOT_NAME_SIZE + 1 };

static const char *mark_name(uint8_t slot, char ret[static MARK_NAME_SIZE])
{
	ret[0] = '.';
	(void)slot_name(slot, ret + 1);
	return ret;
}

int publish_is_of(int alloc_fd, uint8_t slot, const char *volume)
{
	char name[MARK_NAME_SIZE];
	cleanup_place struct place mark = PLACE_INIT;
	struct place own = PLACE_INIT;
	int r = place_open(alloc_fd, mark_name(slot, name), &mark);

	if (r == 0)
		r = place_look(mark.fd, volume, &own);
	return r == -ENOENT ? 0 : r < 0 ? r : 1;
}

int publish_mark(int alloc_fd, uint8_t slot, const char *volume)
{
	assert(alloc_fd >= 0 && volume[0] != '\0');

	char name[MARK_NAME_SIZE];
	cleanup_place struct place mark = PLACE_INIT;
	int r = sys_rmdirat(alloc_fd, mark_name(slot, name)); /* a leftover of a helper that died */

	if (r == -ENOTEMPTY) {
		r = publish_is_of(alloc_fd, slot, volume);
		return r == 0 ? -EEXIST : r < 0 ? r : 0;
	}
	if (r < 0 && r != -ENOENT)
		return r;
	TRY_SYS(place_make(alloc_fd, name, &mark));
	return sys_mkdirat(mark.fd, volume, 0755);
}

int publish_unmark(int alloc_fd, uint8_t slot, const char *volume)
{
	char name[MARK_NAME_SIZE];
	cleanup_place struct place mark = PLACE_INIT;
	int r = place_open(alloc_fd, mark_name(slot, name), &mark);

	if (r == 0)
		r = sys_rmdirat(mark.fd, volume);
	if (r == 0 || r == -ENOENT)
		r = sys_rmdirat(alloc_fd, name);
	return r == -ENOENT || r == -ENOTEMPTY ? 0 : r;
}

bool place_is_own(const struct helper *h, const struct tree *tree, const struct place *place)
{
	return !place->is_mount_root && place->uid == h->agent->helper_uid && (place->mode & 022) == 0 &&
	       place->mount_id == tree->mount_id;
}

int own_find(struct helper *h, int root_fd, const char *path, bool all)
{
	char name[NAME_MAX + 1];
	cleanup_close int fd = path_open_trusted_parent(root_fd, path, name);
	struct place at = PLACE_INIT;
	struct mount_facts mount;
	size_t n = strlen(path), end = n; /* bytes of @path: of @at, of the end */
	int r = fd < 0 ? fd : place_look(fd, name, &at);
	uint32_t next = h->n_own;

	while (r >= 0 || r == -ENOTDIR) { /* a file may be a mount, too */
		if (at.is_mount_root) {
			TRY_SYS(mount_facts(&h->mountinfo, &at, &mount));
			if (mount.root[0] == '\0' || next + all >= OWN_MAX) /* one is left for serving */
				return -ENAMETOOLONG;
			TRY_SYS(str_format(h->own[next], OWN_SIZE, "%s%.*s", mount.root, (int)(end - n),
					   path + n));
			next += !str_starts_with(mount.type, "nfs"); /* which shows no paths */
			if (n == 0 || !all)
				return (int)(next - h->n_own);
			end = n;
		}
		if (n == 0) /* "/" is no mount, as in a chroot */
			return -EXDEV;
		while (path[--n] != '/')
			;
		TRY_SYS(place_of_fd(fd, &at));
		r = sys_openat(fd, "..", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		close_fdp(&fd);
		fd = r;
	}
	return r;
}

bool own_is_shown(const struct helper *h, const char *at)
{
	for (uint32_t i = 0; i < h->n_own; i++)
		if (at[0] == '\0' || path_is_within(at, h->own[i]) || path_is_within(h->own[i], at))
			return true;
	return false;
}

int place_unmount(const struct helper *h, int dir_fd, const char *name, int flags)
{
	assert(dir_fd >= 0 && !strchr(name, '/'));

	int r;

	TRY_SYS(sys_fchdir(dir_fd));
	r = sys_umount2(name, SYS_UMOUNT_NOFOLLOW | flags);
	(void)sys_fchdir(h->root_fd); /* between requests nothing is resolved from below the trees */
	return r;
}

/* Is there FOLDER/NAME@suffix below @dir_fd, NAME being the kernel's for this block device? Returns 1 or 0,
 * and an error when that is unknown. */
static int has_entry(const struct helper *h, int dir_fd, const char *folder, uint32_t dev_major,
		     uint32_t dev_minor, const char *suffix)
{
	const char *device;
	char number[24];
	char link[PATH_MAX]; /* of sysfs, whose links are shorter */
	char path[NAME_MAX];
	struct statx st;
	int r;

	(void)str_format(number, sizeof(number), "%u:%u", dev_major, dev_minor);
	r = sys_readlinkat(h->sysfs_block_fd, number, link, sizeof(link) - 1);
	if (r >= 0) {
		link[r] = '\0';
		device = strrchr(link, '/');
		r = device ? str_format(path, sizeof(path), "%s%s%s", folder, device, suffix) : -EINVAL;
	}
	if (r >= 0)
		r = sys_statx(dir_fd, path, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &st);
	return r == 0 ? 1 : r == -ENOENT ? 0 : r;
}

bool superblock_is_alive(const struct helper *h, const char *type, uint32_t dev_major, uint32_t dev_minor)
{
	int kind = names_find(fs_names, FS_N, type);

	return kind >= 0 && fs_types[kind].has_sysfs &&
	       has_entry(h, h->sysfs_fd, type, dev_major, dev_minor, "") != 0;
}

bool journal_is_inside(const struct helper *h, const struct place *device)
{
	return has_entry(h, h->procfs_fd, "jbd2", device->dev_major, device->dev_minor, "-8") > 0;
}

const char *csi_target_name(bool read_only)
{
	return read_only ? MH_CSI_PUBLISH_RO : MH_CSI_PUBLISH_RW;
}

int mount_open(int dir_fd, const char *name, struct place *ret)
{
	int r = place_open(dir_fd, name, ret);

	return r == -ENOTDIR || (r == 0 && !ret->is_mount_root) ? -ENOENT : r;
}

static int folder_open(const struct helper *h, const struct tree *tree, const char *all, const char *name,
		       bool make, struct place *ret)
{
	assert(name[0] != '\0');

	int (*const enter)(int dir_fd, const char *name, struct place *ret) = make ? place_make : place_open;
	cleanup_place struct place place = PLACE_INIT;

	TRY_SYS(enter(tree->fd, all, &place));
	if (!place_is_own(h, tree, &place))
		return 1;
	TRY_SYS(enter(place.fd, name, ret));
	return place_is_own(h, tree, ret) ? 0 : 1;
}

int plugin_folder_open(const struct helper *h, const char *plugin, bool make, struct place *ret)
{
	return folder_open(h, &h->stage, MH_CSI_FOLDER, plugin, make, ret);
}

int publish_note(const struct helper *h, const struct publish_name *name, bool is_there)
{
	cleanup_place struct place folder = PLACE_INIT;
	char entry[MH_UUID_SIZE + SLOT_NAME_SIZE];
	int r = folder_open(h, &h->publish, PUBLISHES_FOLDER, name->volume, is_there, &folder);

	(void)str_format(entry, sizeof(entry), "%s.%u", name->alloc, name->slot);
	if (r == 0)
		r = is_there ? sys_mkdirat(folder.fd, entry, 0755) : sys_rmdirat(folder.fd, entry);
	return r == (is_there ? -EEXIST : -ENOENT) ? 0 : r > 0 ? -EPERM : r;
}

bool publish_notes_are_none(const struct helper *h, const char *volume)
{
	cleanup_place struct place all = PLACE_INIT;

	return place_open(h->publish.fd, PUBLISHES_FOLDER, &all) == 0 && place_is_own(h, &h->publish, &all) &&
	       sys_rmdirat(all.fd, volume) == 0;
}

/* Takes "@base/NAME" off @point: NAME into @ret of @size, and what follows it: "" or from its slash on. */
static const char *parse_name(const char *point, const char *base, char *ret, size_t size)
{
	size_t n = strlen(base);
	const char *name = point + n + 1;
	size_t len;

	if (!str_starts_with(point, base) || point[n] != '/')
		return NULL;
	len = strcspn(name, "/");
	if (len >= size)
		return NULL;
	memcpy(ret, name, len);
	return name + len;
}

/* Is "/PLUGIN/VOLUME/TARGET" what follows the base and .csi in the name of a plugin's mount? */
static bool is_plugins(const char *rest, struct tree_name *ret)
{
	rest = parse_name(rest, "", ret->plugin, sizeof(ret->plugin));
	if (!rest || !id_is_plugin(ret->plugin))
		return false;
	rest = parse_name(rest, "", ret->volume, sizeof(ret->volume));
	return rest && id_is_label(ret->volume) &&
	       (str_eq(rest, "/" MH_CSI_PUBLISH_RO) || str_eq(rest, "/" MH_CSI_PUBLISH_RW));
}

enum tree_kind tree_classify(const struct agent_policy *agent, const char *point, struct tree_name *ret)
{
	struct tree_name name = {.slot = 0};
	enum tree_kind kind = TREE_NONE;
	const char *rest = parse_name(point, agent->stage_base, name.volume, sizeof(name.volume));
	uint32_t slot;

	if (rest && str_eq(name.volume, MH_CSI_FOLDER)) {
		memset(name.volume, 0, sizeof(name.volume));
		kind = is_plugins(rest, &name) ? TREE_STAGED : TREE_NONE;
	} else if (rest && id_is_label(name.volume) && *rest == '\0') {
		kind = TREE_STAGED;
	}
	rest = parse_name(point, agent->publish_base, name.alloc, sizeof(name.alloc));
	if (rest && id_is_uuid(name.alloc) && *rest == '/' &&
	    parse_u32(rest + 1, 0, MH_SLOT_MAX, &slot) == 0) {
		name.slot = (uint8_t)slot;
		kind = TREE_PUBLISHED;
	}
	if (kind != TREE_NONE)
		*ret = name;
	return kind;
}

/* -ENOENT: unmounted since the table was read. */
static int is_publish_of(const struct helper *h, const struct tree_name *name, const char *volume)
{
	cleanup_place struct place alloc = PLACE_INIT;
	int r = place_open(h->publish.fd, name->alloc, &alloc);

	if (r == 0)
		r = publish_is_of(alloc.fd, name->slot, volume);
	return r == -ENOENT ? 0 : r;
}

int census_take(struct helper *h, struct census *census)
{
	struct mount_entry entry;
	struct tree_name name;
	int r;

	mountinfo_rewind(&h->mountinfo);
	while ((r = mountinfo_next(&h->mountinfo, &entry)) > 0) {
		enum tree_kind kind = tree_classify(h->agent, entry.point, &name);

		census->on_device +=
			entry.dev_major == census->dev_major && entry.dev_minor == census->dev_minor;
		/* a task can mount over its own publish, and so over the stage, as often as it likes */
		census->staged += kind == TREE_STAGED && entry.parent == h->stage.listed_id;
		census->published += kind == TREE_PUBLISHED && entry.parent == h->publish.listed_id;
		r = kind == TREE_PUBLISHED && census->volume ? is_publish_of(h, &name, census->volume) : 0;
		if (r < 0)
			return r;
		census->of_volume += (uint32_t)r;
	}
	return r;
}

int counts_begin_publish(struct helper *h)
{
	uint32_t *published = &h->state->header.published;
	struct census census = {.staged = 0};
	int r = 0;

	TRY_SYS(lock_table(h->state_fd));
	if (*published >= h->agent->max_published)
		r = census_take(h, &census);
	if (r == 0 && census.published >= h->agent->max_published)
		r = -EMFILE;
	/* each other instance may have counted one that it has not attached yet */
	if (r == 0 && *published >= h->agent->max_published)
		*published = census.published + HELPER_INSTANCES - 1;
	if (r == 0)
		*published += 1;
	unlock_table(h->state_fd);
	return r;
}

void counts_end_stage(struct helper *h, const char *volume)
{
	if (lock_table(h->state_fd) < 0)
		return;
	state_clear_staged(h->state, volume);
	unlock_table(h->state_fd);
}
