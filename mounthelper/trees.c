#include "trees.h"

#include "base/id.h"
#include "base/parse.h"

#include <string.h>

char *slot_name(uint8_t slot, char ret[static SLOT_NAME_SIZE])
{
	(void)str_format(ret, SLOT_NAME_SIZE, "%u", (unsigned int)slot);
	return ret;
}

bool place_is_own(const struct helper *h, const struct tree *tree, const struct place *place)
{
	return !place->is_mount_root && place->uid == h->agent->helper_uid && (place->mode & 022) == 0 &&
	       place->mount_id == tree->mount_id;
}

int place_unmount(const struct helper *h, int dir_fd, const char *name, bool detach)
{
	int r = sys_fchdir(dir_fd);

	if (r < 0)
		return r;
	r = sys_umount2(name, SYS_UMOUNT_NOFOLLOW | (detach ? SYS_UMOUNT_DETACH : 0));
	(void)sys_fchdir(h->root_fd); /* between requests nothing is resolved from below the trees */
	return r;
}

int volume_open(const struct helper *h, const char *volume, struct place *ret)
{
	cleanup_place struct place inner = PLACE_INIT;
	int r = place_open(h->stage.fd, volume, ret);

	if (r < 0 || ret->is_mount_root)
		return r;
	r = place_open(ret->fd, MH_CSI_PUBLISH, &inner);
	if (r < 0 || !inner.is_mount_root)
		return r < 0 ? r : -ENOENT;
	place_release(ret);
	*ret = inner;
	inner.fd = -EBADF;
	return 0;
}

/* f_flags has the bits of the attributes, but for the last. */
static int64_t flags_of(uint64_t attributes, bool is_read_only)
{
	const uint64_t same =
		SYS_MOUNT_ATTR_RDONLY | SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV | SYS_MOUNT_ATTR_NOEXEC;

	return (int64_t)(attributes & same) | (is_read_only ? ST_RDONLY : 0) |
	       ((attributes & SYS_MOUNT_ATTR_NOSYMFOLLOW) != 0 ? ST_NOSYMFOLLOW_ : 0);
}

struct flags_search {
	uint64_t id;
	struct statfs found;
	bool is_known; /* its type is one of fs_types */
};

static int visit_flags(const struct mount_entry *entry, void *userdata)
{
	static const struct {
		const char *word;
		uint64_t attribute;
	} words[] = {{"ro", SYS_MOUNT_ATTR_RDONLY},
		     {"nosuid", SYS_MOUNT_ATTR_NOSUID},
		     {"nodev", SYS_MOUNT_ATTR_NODEV},
		     {"noexec", SYS_MOUNT_ATTR_NOEXEC},
		     {"nosymfollow", SYS_MOUNT_ATTR_NOSYMFOLLOW}};
	struct flags_search *search = userdata;
	uint64_t attributes = 0;

	if (entry->id != search->id)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (mount_option_is_set(entry->options, words[i].word))
			attributes |= words[i].attribute;
	search->found.f_flags = flags_of(attributes, mount_option_is_set(entry->super_options, "ro"));
	search->is_known = fs_kind_find(entry->type) >= 0;
	return 1;
}

/* A daemon may take the question of statfs(2) and never answer, and then no signal ends the wait for it. */
int mount_statfs(struct helper *h, const struct place *place, struct statfs *ret)
{
	const uint64_t mask = SYS_STATMOUNT_SB_BASIC | SYS_STATMOUNT_MNT_BASIC;
	struct flags_search search = {.id = place->mount_id};
	struct sys_statmount st;
	int r;

	if (!place->id_is_unique) {
		r = mountinfo_each(&h->mountinfo, visit_flags, &search);
		if (r == 0)
			r = -ENOENT;
	} else {
		r = sys_statmount(place->mount_id, mask, &st);
		if (r == 0 && (st.mask & mask) != mask)
			r = -EOPNOTSUPP;
		if (r == 0) {
			search.found.f_type = (__fsword_t)st.sb_magic;
			search.found.f_flags =
				flags_of(st.mnt_attr, (st.sb_flags & SYS_MOUNT_ATTR_RDONLY) != 0);
			search.is_known = fs_kind_of_magic(st.sb_magic) >= 0;
		}
	}
	if (r < 0)
		return r;
	if (search.is_known)
		return sys_fstatfs(place->fd, ret);
	*ret = search.found;
	return 0;
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

	if (rest && id_is_label(name.volume)) {
		if (*rest == '\0' || str_eq(rest, "/" MH_CSI_PUBLISH))
			kind = TREE_STAGED;
		else if (str_eq(rest, "/" MH_CSI_STAGING))
			kind = TREE_PLUGIN;
	}
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
	bool alike = key == c->keys[0] || key == c->keys[1];

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
