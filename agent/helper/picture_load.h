/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Reading the kernel picture from the mount helper, page by page, before every other request. */

#include "helper/client.h"
#include "helper/picture.h"

/** @picture handed over, picture_free(); NULL when @err says why there is none. */
typedef void picture_done_fn(struct picture *picture, const struct error *err, void *userdata);

/* Embedded in its owner. */
struct picture_load {
	struct helper_client *client; /* borrowed */
	picture_done_fn *done;
	void *userdata;
	struct picture *picture; /* being filled; NULL: no load is under way */
	enum mh_list_kind kind;	 /* being read */
	bool is_stale;		 /* asked for again while under way: what was read so far does not count */
};

void picture_load_init(struct picture_load *load, struct helper_client *client, picture_done_fn *done,
		       void *userdata);

/** The helper client must be freed before. */
void picture_load_release(struct picture_load *load);

/** Read the picture from the beginning; @done runs once, from the event loop, also after several starts. */
enum status picture_load_start(struct picture_load *load, struct error *err);
