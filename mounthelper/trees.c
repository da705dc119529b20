#include "trees.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <string.h>

void place_release(struct place *place)
{
	close_fdp(&place->fd);
	place->fd = -EBADF;
}

int place_of_fd(int fd, struct place *ret)
{
	const unsigned int mask = STATX_TYPE | STATX_MODE | STATX_UID | STATX_INO | STATX_MNT_ID;
	struct statx st;
	int r = sys_statx(fd, "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, mask, &st);

	if (r < 0)
		return r;
	if ((st.stx_mask & mask) != mask || (st.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) == 0)
		return -EOPNOTSUPP;
	*ret = (struct place){.fd = -EBADF,
			      .mount_id = st.stx_mnt_id,
			      .ino = st.stx_ino,
			      .dev_major = st.stx_dev_major,
			      .dev_minor = st.stx_dev_minor,
			      .uid = st.stx_uid,
			      .mode = st.stx_mode,
			      .is_mount_root = (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0};
	return 0;
}

int place_open(int dir_fd, const char *name, struct place *ret)
{
	cleanup_close int fd = sys_openat(dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r;

	if (fd < 0)
		return TAKE_FD(fd);
	r = place_of_fd(fd, ret);
	if (r == 0)
		ret->fd = TAKE_FD(fd);
	return r;
}

bool place_is_own(const struct helper *h, const struct tree *tree, const struct place *place)
{
	return !place->is_mount_root && place->uid == h->agent->helper_uid && (place->mode & 022) == 0 &&
	       place->mount_id == tree->mount_id;
}

bool place_is_same(const struct place *a, const struct place *b)
{
	return a->dev_major == b->dev_major && a->dev_minor == b->dev_minor && a->ino == b->ino;
}

int place_make(int dir_fd, const char *name, struct place *ret)
{
	int r = sys_mkdirat(dir_fd, name, 0755);

	if (r < 0 && r != -EEXIST)
		return r;
	return place_open(dir_fd, name, ret);
}

int place_unmount(const struct helper *h, int dir_fd, const char *name, bool detach)
{
	int r = sys_fchdir(dir_fd);

	if (r < 0)
		return r;
	r = sys_umount2(name, SYS_UMOUNT_NOFOLLOW | (detach ? SYS_UMOUNT_DETACH : 0));
	(void)sys_fchdir(h->root_fd); /* only keeps the tree from being pinned by our working directory */
	return r;
}

char *slot_name(uint8_t slot, char ret[static SLOT_NAME_SIZE])
{
	(void)str_format(ret, SLOT_NAME_SIZE, "%u", (unsigned int)slot);
	return ret;
}

/* The part of @point behind "@base/", or NULL. */
static const char *below(const char *point, const char *base)
{
	size_t n = strlen(base);

	return str_starts_with(point, base) && point[n] == '/' ? point + n + 1 : NULL;
}

static bool classify_publish(const char *rest, struct tree_name *name)
{
	const char *slash = strchr(rest, '/');
	uint32_t slot;

	if (!slash || (size_t)(slash - rest) >= sizeof(name->alloc))
		return false;
	memcpy(name->alloc, rest, (size_t)(slash - rest));
	if (!id_is_uuid(name->alloc) || parse_u32(slash + 1, 0, MH_SLOT_MAX, &slot) < 0)
		return false;
	name->slot = (uint8_t)slot;
	return true;
}

enum tree_kind tree_classify(const struct agent_policy *agent, const char *point, struct tree_name *ret)
{
	struct tree_name name = {.slot = 0};
	const char *staged = below(point, agent->stage_base);
	const char *published = below(point, agent->publish_base);

	if (staged && id_is_label(staged)) {
		(void)str_copy(name.volume, sizeof(name.volume), staged);
		*ret = name;
		return TREE_STAGED;
	}
	if (published && classify_publish(published, &name)) {
		*ret = name;
		return TREE_PUBLISHED;
	}
	return TREE_NONE;
}

/* "size=1024k" among the options of a tmpfs. */
static uint64_t tmpfs_size(const char *options)
{
	const char *at = strstr(options, "size=");
	char digits[24];
	uint64_t kib;
	size_t n;

	if (!at || (at != options && at[-1] != ','))
		return UINT64_MAX;
	at += strlen("size=");
	n = strspn(at, "0123456789");
	if (n == 0 || n >= sizeof(digits) || at[n] != 'k')
		return UINT64_MAX;
	memcpy(digits, at, n);
	digits[n] = '\0';
	return parse_u64(digits, 0, UINT64_MAX / 1024, &kib) < 0 ? UINT64_MAX : kib * 1024;
}

struct counting {
	const struct agent_policy *agent;
	struct census *census;
};

static int visit_census(const struct mount_entry *entry, void *userdata)
{
	const struct counting *counting = userdata;
	struct census *c = counting->census;
	struct tree_name name;
	enum tree_kind kind = tree_classify(counting->agent, entry->point, &name);
	bool on_device = (c->dev_major != 0 || c->dev_minor != 0) && entry->dev_major == c->dev_major &&
			 entry->dev_minor == c->dev_minor;

	c->on_device += on_device;
	c->children += c->parent != 0 && entry->parent == c->parent;
	if (kind == TREE_STAGED) {
		c->staged++;
		c->staged_on_device += on_device;
		if (str_eq(entry->type, "tmpfs") &&
		    __builtin_add_overflow(c->tmpfs_bytes, tmpfs_size(entry->super_options), &c->tmpfs_bytes))
			c->tmpfs_bytes = UINT64_MAX;
	} else if (kind == TREE_PUBLISHED) {
		c->published++;
		c->published_on_device += on_device;
		c->in_alloc += c->alloc && str_eq(name.alloc, c->alloc);
	}
	return 0;
}

int census_take(struct helper *h, struct census *census)
{
	struct counting counting = {.agent = h->agent, .census = census};

	return mountinfo_each(&h->mountinfo, visit_census, &counting);
}
