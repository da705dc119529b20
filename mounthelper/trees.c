#include "trees.h"

#include "base/id.h"
#include "base/names.h"
#include "base/parse.h"

#include <linux/stat.h>
#include <string.h>

char *slot_name(uint8_t slot, char ret[static SLOT_NAME_SIZE])
{
	(void)str_decimal(ret, SLOT_NAME_SIZE, slot);
	return ret;
}

bool place_is_own(const struct helper *h, const struct tree *tree, const struct place *place)
{
	return !place->is_mount_root && place->uid == h->agent->helper_uid && (place->mode & 022) == 0 &&
	       place->mount_id == tree->line[0].mount_id;
}

static bool shows_tree(const struct helper *h, const struct tree *tree, const struct place *place)
{
	const struct place *base = &tree->line[0];

	for (uint32_t i = 0; i < tree->n_line; i++)
		if (place_is_same(&tree->line[i], place))
			return true;
	/* everything in it is the helper's and on the same file system */
	return tree->n_line > 0 && place->uid == h->agent->helper_uid &&
	       place->dev_major == base->dev_major && place->dev_minor == base->dev_minor;
}

bool place_shows_trees(const struct helper *h, const struct place *place)
{
	return shows_tree(h, &h->stage, place) || shows_tree(h, &h->publish, place);
}

int place_unmount(const struct helper *h, int dir_fd, const char *name, int flags)
{
	int r = sys_fchdir(dir_fd);

	if (r < 0)
		return r;
	r = sys_umount2(name, SYS_UMOUNT_NOFOLLOW | flags);
	(void)sys_fchdir(h->root_fd); /* between requests nothing is resolved from below the trees */
	return r;
}

bool superblock_is_alive(const struct helper *h, const char *type, uint32_t dev_major, uint32_t dev_minor)
{
	int kind = names_find(fs_names, FS_N, type);
	const char *device;
	char number[24];
	char link[256];
	char path[sizeof(link) + 16];
	struct statx st;
	int n;

	if (kind < 0 || !fs_types[kind].has_sysfs)
		return false;
	(void)str_format(number, sizeof(number), "%u:%u", dev_major, dev_minor);
	n = sys_readlinkat(h->sysfs_block_fd, number, link, sizeof(link) - 1);
	link[n < 0 ? 0 : n] = '\0';
	device = strrchr(link, '/');
	(void)str_format(path, sizeof(path), "%s%s", type, device ? device : "");
	return device && sys_statx(h->sysfs_fd, path, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &st) == 0;
}

const char *csi_target_name(bool read_only)
{
	return read_only ? MH_CSI_PUBLISH_RO : MH_CSI_PUBLISH_RW;
}

int csi_target_enter(struct place *place, bool read_only)
{
	struct place target = PLACE_INIT;
	int r = place_open(place->fd, csi_target_name(read_only), &target);

	if (r == -ENOTDIR || (r == 0 && !target.is_mount_root)) /* a block attachment has a file there */
		r = -ENOENT;
	place_release(r == 0 ? place : &target);
	if (r == 0)
		*place = target;
	return r;
}

int volume_open(const struct helper *h, const char *volume, bool read_only, struct place *ret)
{
	int r = place_look(h->stage.fd, volume, ret);

	if (r == 0 && !ret->is_mount_root)
		r = place_open(h->stage.fd, volume, ret);
	return r < 0 || ret->is_mount_root ? r : csi_target_enter(ret, read_only);
}

/* Take "@base/NAME" off @point: NAME into @ret of @size, and what follows it: "" or from its slash on. */
static const char *take_name(const char *point, const char *base, char *ret, size_t size)
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

enum tree_kind tree_classify(const struct agent_policy *agent, const char *point, struct tree_name *ret)
{
	struct tree_name name = {.slot = 0};
	enum tree_kind kind = TREE_NONE;
	const char *rest = take_name(point, agent->stage_base, name.volume, sizeof(name.volume));
	uint32_t slot;

	if (rest && id_is_label(name.volume) &&
	    (*rest == '\0' || str_eq(rest, "/" MH_CSI_PUBLISH_RO) || str_eq(rest, "/" MH_CSI_PUBLISH_RW)))
		kind = TREE_STAGED;
	rest = take_name(point, agent->publish_base, name.alloc, sizeof(name.alloc));
	if (rest && id_is_uuid(name.alloc) && *rest == '/' &&
	    parse_u32(rest + 1, 0, MH_SLOT_MAX, &slot) == 0) {
		name.slot = (uint8_t)slot;
		kind = TREE_PUBLISHED;
	}
	if (kind != TREE_NONE)
		*ret = name;
	return kind;
}

static int visit_census(const struct mount_entry *entry, void *userdata)
{
	struct census *c = userdata;
	struct tree_name name;
	enum tree_kind kind = tree_classify(c->agent, entry->point, &name);
	uint64_t key = mount_key(entry->dev_major, entry->dev_minor, entry->root);
	bool alike = key == c->keys[0] || key == c->keys[1] || key == c->keys[2];

	c->on_device += entry->dev_major == c->dev_major && entry->dev_minor == c->dev_minor;
	c->staged += kind == TREE_STAGED;
	c->published += kind == TREE_PUBLISHED;
	c->staged_alike += kind == TREE_STAGED && alike;
	c->published_alike += kind == TREE_PUBLISHED && alike;
	return 0;
}

int census_take(struct helper *h, struct census *census)
{
	census->agent = h->agent;
	return mountinfo_each(&h->mountinfo, visit_census, census);
}

int counts_begin_publish(struct helper *h, const char *volume, uint64_t key)
{
	struct census census = {.staged = 0};
	int r = lock_table(h->state_fd);

	if (r < 0)
		return r;
	r = state_begin_publish(h->state, volume, key, h->agent->max_published);
	if (r == -EMFILE && census_take(h, &census) == 0 && census.published < h->agent->max_published)
		r = state_begin_publish(h->state, volume, key, UINT32_MAX);
	unlock_table(h->state_fd);
	return r;
}

bool counts_has_publish(struct helper *h, const char *volume, uint64_t key)
{
	const struct state_slot *slot;
	bool has;

	if (lock_table(h->state_fd) < 0)
		return false;
	slot = state_find(h->state, volume);
	has = slot && slot->published > 0 &&
	      (slot->published_keys[0] == key || slot->published_keys[1] == key);
	unlock_table(h->state_fd);
	return has;
}

void counts_end_publish(struct helper *h, const char *volume, bool all)
{
	if (lock_table(h->state_fd) < 0)
		return;
	state_end_publish(h->state, volume, all);
	unlock_table(h->state_fd);
}

void counts_end_stage(struct helper *h, const char *volume)
{
	if (lock_table(h->state_fd) < 0)
		return;
	state_clear_staged(h->state, volume);
	unlock_table(h->state_fd);
}
