/* SPDX-License-Identifier: Apache-2.0 */
#include "helper/picture_load.h"

#include "base/cleanup.h"

#include <errno.h>

/* Profiles first: they are what the server waits for. */
static const enum mh_list_kind order[] = {MH_LIST_PROFILES, MH_LIST_STAGED, MH_LIST_PUBLISHED};

static void on_page(const union helper_reply *reply, const struct error *err, void *userdata);

void picture_load_init(struct picture_load *load, struct helper_client *client, picture_done_fn *done,
		       void *userdata)
{
	*load = (struct picture_load){.client = client, .done = done, .userdata = userdata};
}

void picture_load_release(struct picture_load *load)
{
	picture_free(TAKE_PTR(load->picture));
}

static enum status ask(struct picture_load *load, uint32_t cursor, struct error *err)
{
	union helper_request request;

	helper_request_list(load->kind, cursor, &request);
	return helper_client_request(load->client, &request, HELPER_URGENT, on_page, load, err);
}

static void finish(struct picture_load *load, const struct error *err)
{
	struct picture *picture = TAKE_PTR(load->picture);

	if (err) {
		picture_free(picture);
		picture = NULL;
	}
	load->done(picture, err, load->userdata);
}

/* The kind after this one; false when this was the last. */
static bool next_kind(struct picture_load *load)
{
	for (size_t i = 0; i + 1 < ARRAY_SIZE(order); i++) {
		if (order[i] == load->kind) {
			load->kind = order[i + 1];
			return true;
		}
	}
	return false;
}

static enum status begin(struct picture_load *load, struct error *err)
{
	enum status status;

	picture_load_release(load);
	load->picture = picture_new();
	if (!load->picture)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot read the kernel picture");
	load->is_stale = false;
	load->kind = order[0];
	status = ask(load, 0, err);
	if (status != STATUS_OK)
		picture_load_release(load);
	return status;
}

static enum status take_page(struct picture_load *load, const struct mh_list_reply *page, struct error *err)
{
	enum status status;

	if (page->status != MH_OK && page->status != MH_ALREADY)
		return error_set(err, STATUS_UNAVAILABLE, page->sys_errno,
				 "the mount helper cannot list its mounts (status %u)", page->status);
	for (size_t i = 0; i < page->count; i++) {
		status = picture_add(load->picture, load->kind, &page->entries[i], err);
		if (status != STATUS_OK)
			return status;
	}
	return STATUS_OK;
}

static void on_page(const union helper_reply *reply, const struct error *err, void *userdata)
{
	struct picture_load *load = userdata;
	struct error failure;
	enum status status;

	if (err) {
		finish(load, err);
		return;
	}
	if (load->is_stale) {
		status = begin(load, &failure);
	} else {
		status = take_page(load, &reply->list, &failure);
		if (status == STATUS_OK && reply->list.cursor == 0 && !next_kind(load)) {
			finish(load, NULL);
			return;
		}
		if (status == STATUS_OK)
			status = ask(load, reply->list.cursor, &failure);
	}
	if (status != STATUS_OK)
		finish(load, &failure);
}

enum status picture_load_start(struct picture_load *load, struct error *err)
{
	if (load->picture) {
		load->is_stale = true;
		return STATUS_OK;
	}
	return begin(load, err);
}
