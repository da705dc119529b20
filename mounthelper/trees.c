#include "trees.h"

#include "base/id.h"
#include "base/mountinfo.h"
#include "base/parse.h"
#include "base/str.h"

#include <string.h>

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
	if (kind == TREE_STAGED) {
		c->staged++;
		c->staged_on_device += on_device;
	} else if (kind == TREE_PUBLISHED) {
		c->published++;
		c->published_on_device += on_device;
	}
	return 0;
}

int census_take(struct helper *h, struct census *census)
{
	struct counting counting = {.agent = h->agent, .census = census};

	return mountinfo_each(&h->mountinfo, visit_census, &counting);
}
