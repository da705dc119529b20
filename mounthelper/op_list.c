/* SPDX-License-Identifier: Apache-2.0 */
/* LIST: read from the kernel, nothing is changed. */

#include "ops.h"
#include "trees.h"

struct listing {
	struct helper *h;
	const struct mh_list *req;
	struct mh_list_reply *reply;
};

static bool is_full(const struct listing *l)
{
	return l->reply->count == MH_LIST_MAX;
}

/* The entry for @name, or NULL when it is not asked for. */
static struct mh_list_entry *next_entry(struct listing *l, const char *name)
{
	struct mh_list_entry *entry = &l->reply->entries[l->reply->count];

	assert(!is_full(l));
	if (l->req->volume[0] != '\0' && !str_eq(name, l->req->volume))
		return NULL;
	l->reply->count++;
	(void)str_copy(entry->volume, sizeof(entry->volume), name);
	return entry;
}

/* Is this mount where the volume of its name is, or was last? A plugin can mount in its own folder under the
 * name of a volume of another one. */
static bool is_in_place(const struct listing *l, const struct tree_name *name, unsigned int *state)
{
	const struct state_slot *slot;
	bool is_so;

	if (l->req->volume[0] != '\0')
		return str_eq(name->plugin, l->req->profile);
	if (name->plugin[0] == '\0' || lock_table(l->h->state_fd) < 0)
		return true;
	slot = state_find(l->h->state, name->volume);
	*state |= slot ? 0U : MH_STATE_UNCOUNTED;
	is_so = !slot || str_eq(slot->plugin, name->plugin);
	unlock_table(l->h->state_fd);
	return is_so;
}

static void list_mount(struct listing *l, const struct mount_entry *mount)
{
	struct tree_name name;
	enum tree_kind kind = tree_classify(l->h->agent, mount->point, &name);
	enum tree_kind wanted = l->req->kind == MH_LIST_STAGED ? TREE_STAGED : TREE_PUBLISHED;
	unsigned int state = wanted == TREE_STAGED ? MH_STATE_STAGED : MH_STATE_PUBLISHED;
	bool is_wanted = kind == wanted && (kind == TREE_PUBLISHED || is_in_place(l, &name, &state));
	struct mh_list_entry *entry = is_wanted ? next_entry(l, name.volume) : NULL;

	if (!entry)
		return;
	if (mount_option_is_set(mount->options, "ro") || mount_option_is_set(mount->super_options, "ro"))
		state |= MH_STATE_READ_ONLY;
	state |= mount_option_is_set(mount->options, "noexec") ? 0U : MH_STATE_EXEC;
	state |= mount->peer_group != 0 ? MH_STATE_SHARED : 0U;
	state |= mount->master != 0 ? MH_STATE_SLAVE : 0U;
	(void)str_copy(entry->alloc, sizeof(entry->alloc), name.alloc);
	entry->slot = name.slot;
	entry->dev_major = mount->dev_major;
	entry->dev_minor = mount->dev_minor;
	entry->state = (uint16_t)state;
}

/* Continues the pass of the page before this one. Returns 1 when the page is full, 0 at the end of the table,
 * or a negative errno. */
static int list_mounts(struct listing *l)
{
	struct mountinfo *table = &l->h->mountinfo;
	struct mount_entry mount;
	int r = 1;

	if (l->req->cursor == 0)
		mountinfo_rewind(table);
	while (!is_full(l) && (r = mountinfo_next(table, &mount)) > 0)
		list_mount(l, &mount);
	return r;
}

static int list_profiles(struct listing *l)
{
	const struct agent_policy *agent = l->h->agent;

	for (uint32_t i = l->req->cursor; i < agent->n_profiles && !is_full(l); i++) {
		const struct profile *profile = &agent->profiles[i];
		struct mh_list_entry *entry = next_entry(l, profile->name);
		unsigned int state = profile->read_only ? MH_STATE_READ_ONLY : 0U;

		if (!entry)
			continue;
		state |= profile->exec ? MH_STATE_EXEC : 0U;
		state |= profile->shared ? MH_STATE_SHARED : 0U;
		state |= (profile->kind == FS_ANY || l->h->type_available[profile->kind]) ? MH_STATE_AVAILABLE
											  : 0U;
		entry->class = (uint8_t)profile->class;
		entry->state = (uint16_t)state;
	}
	return is_full(l);
}

/* Enters the folder of @plugin, which may never answer, in one of its places and with an alarm. */
static int enter_plugins(const struct helper *h, const char *plugin, struct place *ret)
{
	TRY_SYS(lock_plugin(h->state_fd, plugin));
	TRY_SYS(sys_set_timer(h->agent->nfs_timeout_s));
	return plugin_folder_open(h, plugin, false, ret);
}

/* A volume that is not mounted may have its directory, and a plugin of class csi may have been there. */
static int list_prepared(struct listing *l)
{
	const bool is_native = l->req->profile[0] == '\0';
	cleanup_place struct place plugin = PLACE_INIT;
	struct place folder = PLACE_INIT;
	int r = is_native ? 0 : enter_plugins(l->h, l->req->profile, &plugin);
	struct mh_list_entry *entry;

	if (r == 0)
		r = place_look(is_native ? l->h->stage.fd : plugin.fd, l->req->volume, &folder);
	/* also if the folder is not to be entered: unknown means keep */
	entry = r >= 0 ? next_entry(l, l->req->volume) : NULL;
	if (entry)
		entry->state = MH_STATE_PREPARED;
	if (!is_native) {
		(void)sys_set_timer(0);
		lock_release(l->h->state_fd);
	}
	return r == -ENOENT || r > 0 ? 0 : r;
}

static bool is_next_page(const struct mh_list *next, const struct mh_list *req)
{
	return memcmp(&next->kind, &req->kind, sizeof(*req) - offsetof(struct mh_list, kind)) == 0;
}

void op_list(struct helper *h, const struct mh_list *req, struct mh_list_reply *reply)
{
	struct listing listing = {.h = h, .req = req, .reply = reply};
	int r = -ESTALE; /* the last request was not for the page before this one */

	assert(req->kind <= MH_LIST_PROFILES && reply->count == 0);
	if (req->cursor == 0 || is_next_page(&h->list_next, req))
		r = req->kind == MH_LIST_PROFILES ? list_profiles(&listing) : list_mounts(&listing);
	if (r == 0 && reply->count == 0 && req->kind == MH_LIST_STAGED && req->volume[0] != '\0')
		r = list_prepared(&listing);
	h->list_next = *req;
	h->list_next.cursor = reply->cursor = r > 0 ? req->cursor + reply->count : 0;
	if (r < 0) /* no part of a page */
		*reply = (struct mh_list_reply){.header = reply->header,
						.status = r == -ESTALE ? MH_CONFLICT : MH_KERNEL,
						.sys_errno = (uint16_t)-r};
}
