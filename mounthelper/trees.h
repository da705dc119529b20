#pragma once
/* Names below the two trees, and what the whole mount table says about them.
 *
 *	stage base/VOLUME		one staged file system
 *	publish base/ALLOC/SLOT		one publish of a volume for an allocation
 *
 * Every name is one component that the helper formed itself; links are never followed. */

#include "helper.h"

enum { SLOT_NAME_SIZE = 4 };

/** Name of the directory of @slot; returns @ret. */
char *slot_name(uint8_t slot, char ret[static SLOT_NAME_SIZE]);

enum tree_kind {
	TREE_NONE,
	TREE_STAGED,
	TREE_PUBLISHED,
};

struct tree_name {
	char volume[MH_LABEL_SIZE];
	char alloc[MH_UUID_SIZE];
	uint8_t slot;
};

/** Which of our names the mount point @point is. Pure. */
enum tree_kind tree_classify(const struct agent_policy *agent, const char *point, struct tree_name *ret);

/* A question to the whole mount table, and its answers. Only for what must be known of all mounts: at the
 * start, for LIST, and where a count in the state table is in doubt. */
struct census {
	/* asked for */
	uint32_t dev_major; /* of the device, 0:0 for none */
	uint32_t dev_minor;
	/* found */
	uint32_t staged;
	uint32_t published;
	uint32_t on_device;	      /* mounts of the device anywhere */
	uint32_t staged_on_device;    /* of them, staged by us */
	uint32_t published_on_device; /* of them, publishes of ours */
};

/** Fill the answers in @census by one pass. Returns 0 or a negative errno. */
int census_take(struct helper *h, struct census *census);
