/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A helper before the model of the kernel: what the tests of the operations share. */

#include "fake_kernel.h"
#include "fixture.h"
#include "ops.h"

#define STAGED "/srv/stage/vol-1"
#define PUBLISHED "/srv/publish/" FIXTURE_ALLOC "/2"

#define SLOT(number) "/srv/publish/" FIXTURE_ALLOC "/" number
#define MEMORY "/srv/stage/mem-1"
#define PLUG "/srv/stage/.csi/csi.plug" /* the folder of the plugin plug */
#define PLUG_SUMMARY "dir /srv/stage/.csi\ndir " PLUG "\n"
#define PLUGIN_STAGED PLUG "/vol-1"
#define PLUGIN_STAGING PLUGIN_STAGED "/staging"
#define PLUGIN_PUBLISH PLUGIN_STAGED "/rw-publish"
#define PLUGIN_PUBLISH_RO PLUGIN_STAGED "/ro-publish"

/* For the agent's block: profiles that share, used without tickets. */
#define SHARING                                                                                       \
	"ticket = optional\n"                                                                         \
	"profile pair { class = tmpfs; fstype = tmpfs; max_size = 2MiB; max_inodes = 1000; shared = " \
	"yes }\n"                                                                                     \
	"profile csi.plug { class = csi; shared = yes }\n"

extern struct helper helper;
extern struct policy policy; /* the helper's */

/** cmocka fixtures: a new world with the fixture's policy. */
int setup(void **state);
int teardown(void **state);

/** Begin again, with @extra in the agent's block. */
void new_world(const char *extra);

/** A helper process that has just started in the same world. */
void start_helper(const char *extra);

/** Run a request to its reply; descriptors and locks must be released. */
struct mh_reply run(const void *request, size_t n);

/** What LIST tells of the staged @volume or, when that is empty, of the publish of @alloc at @slot;
 * MH_NOT_FOUND when it tells nothing. */
struct mh_reply look(const char *volume, const char *alloc, uint8_t slot);
/** The same of a volume in the folder of @plugin. */
struct mh_reply look_csi(const char *volume, const char *plugin);
struct mh_reply stage(struct mh_stage req);
struct mh_reply publish(struct mh_publish req);
struct mh_reply unpublish(struct mh_unpublish req);
struct mh_reply unstage(struct mh_unstage req);

/* Requests for SHARING: the volume mem-1 of profile pair, csi volumes of profile csi.plug. */
struct mh_stage stage_pair(void);
struct mh_publish publish_pair(uint8_t slot, int propagation);
struct mh_publish publish_csi(const char *volume, uint8_t slot);
struct mh_unpublish unpublish_of(const char *volume, uint8_t slot);
struct mh_unstage unstage_of(const char *volume);
struct mh_unstage unstage_csi(const char *volume);

/** A volume of class csi as STAGE and its plugin leave it: directories, nothing mounted. */
void make_csi(const char *volume);

/** The last line of the log. */
const char *last_record(void);

/** Sign a ticket for @req, of the fixture's disk. */
void grant_publish(struct mh_publish *req);

#define ASSERT_REPLY(reply, want)                                                                         \
	do {                                                                                              \
		struct mh_reply reply_ = (reply);                                                         \
		if (reply_.status != (want))                                                              \
			fail_msg("status %u step %u errno %u, wanted %d; %s", reply_.status, reply_.step, \
				 reply_.sys_errno, (int)(want), last_record());                           \
	} while (0)

#define ASSERT_RECORDED(text)                                                    \
	do {                                                                     \
		if (!strstr(last_record(), (text)))                              \
			fail_msg("\"%s\" is not in: %s", (text), last_record()); \
	} while (0)
