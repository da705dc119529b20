/* SPDX-License-Identifier: Apache-2.0 */
/* STAT and LIST: read from the kernel, nothing is changed. */

#include "ops.h"
#include "trees.h"

static int open_publish(const struct helper *h, const struct mh_stat *req, struct place *ret)
{
	cleanup_place struct place alloc = PLACE_INIT;
	char slot[SLOT_NAME_SIZE];
	int r = place_open(h->publish.fd, req->alloc, &alloc);

	if (r == 0)
		r = place_open(alloc.fd, slot_name(req->slot, slot), ret);
	return r == 0 && !ret->is_mount_root ? -ENOENT : r;
}

/* A volume of class csi for which the plugin has not done its part. */
static bool is_prepared(const struct place *volume)
{
	cleanup_place struct place staging = PLACE_INIT;

	return volume->fd >= 0 && place_open(volume->fd, MH_CSI_STAGING, &staging) == 0;
}

struct outcome op_stat(struct helper *h, const union mh_request *request, const struct admission *admission)
{
	const struct mh_stat *req = &request->stat;
	cleanup_place struct place place = PLACE_INIT;
	bool of_volume = req->alloc[0] == '\0';
	unsigned int state = of_volume ? MH_STATE_STAGED : MH_STATE_PUBLISHED;
	struct mount_facts facts = {.peer_group = 0};
	int r = of_volume ? volume_open(h, req->volume, false, &place) : open_publish(h, req, &place);

	(void)admission; /* it needs none */
	if (r == -ENOENT && of_volume && place.fd >= 0)
		r = csi_target_enter(&place, true);
	if (r == -ENOENT && of_volume && is_prepared(&place))
		return (struct outcome){.status = MH_OK, .state = MH_STATE_PREPARED};
	if (r == -ENOENT)
		return outcome_stop(MH_NOT_FOUND, STEP_OPEN, REASON_NONE);
	if (r == 0)
		r = mount_facts(&h->mountinfo, &place, &facts);
	if (r < 0)
		return outcome_kernel(STEP_OPEN, r);
	state |= (facts.peer_group != 0 ? MH_STATE_SHARED : 0U) | (facts.master != 0 ? MH_STATE_SLAVE : 0U);
	return outcome_mounted(MH_OK, &place, &facts, state);
}

struct listing {
	struct helper *h;
	const struct mh_list *req;
	struct mh_list_reply *reply;
	uint32_t index; /* of the next match */
	bool more;
};

/* The entry for the next match, or NULL when it belongs to an earlier or later page. */
static struct mh_list_entry *next_entry(struct listing *l)
{
	if (l->index++ < l->req->cursor)
		return NULL;
	if (l->reply->count == MH_LIST_MAX) {
		l->more = true;
		return NULL;
	}
	return &l->reply->entries[l->reply->count++];
}

static int visit_mount(const struct mount_entry *mount, void *userdata)
{
	struct listing *l = userdata;
	struct tree_name name;
	enum tree_kind kind = tree_classify(l->h->agent, mount->point, &name);
	enum tree_kind wanted = l->req->kind == MH_LIST_STAGED ? TREE_STAGED : TREE_PUBLISHED;
	struct mh_list_entry *entry = kind == wanted ? next_entry(l) : NULL;
	unsigned int state = wanted == TREE_STAGED ? MH_STATE_STAGED : MH_STATE_PUBLISHED;

	if (!entry)
		return l->more;
	if (mount_option_is_set(mount->options, "ro") || mount_option_is_set(mount->super_options, "ro"))
		state |= MH_STATE_READ_ONLY;
	state |= mount_option_is_set(mount->options, "noexec") ? 0U : MH_STATE_EXEC;
	state |= mount->peer_group != 0 ? MH_STATE_SHARED : 0U;
	state |= mount->master != 0 ? MH_STATE_SLAVE : 0U;
	(void)str_copy(entry->volume, sizeof(entry->volume), name.volume);
	(void)str_copy(entry->alloc, sizeof(entry->alloc), name.alloc);
	entry->slot = name.slot;
	entry->dev_major = mount->dev_major;
	entry->dev_minor = mount->dev_minor;
	entry->state = (uint16_t)state;
	return 0;
}

static void list_profiles(struct listing *l)
{
	const struct agent_policy *agent = l->h->agent;

	for (uint32_t i = 0; i < agent->n_profiles && !l->more; i++) {
		const struct profile *profile = &agent->profiles[i];
		struct mh_list_entry *entry = next_entry(l);
		unsigned int state = 0;

		if (!entry)
			continue;
		state |= profile->read_only ? MH_STATE_READ_ONLY : 0U;
		state |= profile->exec ? MH_STATE_EXEC : 0U;
		state |= profile->shared ? MH_STATE_SHARED : 0U;
		state |= (profile->kind == FS_ANY || l->h->type_available[profile->kind]) ? MH_STATE_AVAILABLE
											  : 0U;
		(void)str_copy(entry->volume, sizeof(entry->volume), profile->name);
		entry->class = (uint8_t)profile->class;
		entry->state = (uint16_t)state;
	}
}

void op_list(struct helper *h, const struct mh_list *req, struct mh_list_reply *reply)
{
	struct listing listing = {.h = h, .req = req, .reply = reply};
	int r = 0;

	if (req->kind == MH_LIST_PROFILES)
		list_profiles(&listing);
	else
		r = mountinfo_each(&h->mountinfo, visit_mount, &listing);
	if (listing.more)
		reply->cursor = req->cursor + reply->count;
	if (r < 0) /* no part of a page */
		*reply = (struct mh_list_reply){
			.header = reply->header, .status = MH_KERNEL, .sys_errno = (uint16_t)-r};
}
