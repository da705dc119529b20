/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The test's side of fake_helper.h: a temporary folder with the program and its state. */

#include "fake_helper.h"

struct fake_helper {
	char folder[64]; /* below /tmp; tests may put their own files there */
	char path[96];	 /* of the program, as helper.path */
	struct fake_state *state;
	char socket[96]; /* as helper.socket, once somebody listens */
	pid_t listener;
};

/** Make the folder and an empty state; asserts that it works. */
void fake_helper_init(struct fake_helper *fake);

/** End instances that hang, remove the folder with all plain files in it. */
void fake_helper_release(struct fake_helper *fake);

/** Stand in for the service manager: start an instance for each connection to fake->socket. */
void fake_helper_listen(struct fake_helper *fake);

/** How often @op was done with @status to this volume (NULL: any) for this allocation (NULL: any). */
unsigned int fake_helper_count(const struct fake_helper *fake, enum mh_op op, enum mh_status status,
			       const char *volume, const char *alloc);

/** What stands at allocation and slot, or (alloc "") what is staged as @volume; NULL: nothing. */
const struct fake_mount *fake_helper_mount(const struct fake_helper *fake, const char *volume,
					   const char *alloc, unsigned int slot);

/** The folders of a csi volume; NULL: none. */
const struct fake_folder *fake_helper_folder(const struct fake_helper *fake, const char *volume);

/** What a plugin does at @path, one of its places below FAKE_STAGE_BASE; elsewhere is a failure of the test.
 * @place NULL: it unmounts */
void fake_helper_plugin(struct fake_helper *fake, const char *path, const struct fake_place *place);

/** What stands at @path, one of those places; NULL: nothing. */
const struct fake_place *fake_helper_place(const struct fake_helper *fake, const char *path);

/** A mount that was there before. */
void fake_helper_put(struct fake_helper *fake, const char *volume, const char *alloc, unsigned int slot,
		     uint32_t minor);
