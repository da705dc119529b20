/* SPDX-License-Identifier: Apache-2.0 */
/* The fixture's store is in sqlite. */

#include "fixture.h"

const bool fixture_shares_revisions = false;

void fixture_prepare(struct fixture *f)
{
	(void)temp_dir_path(f->path, f->dir, "test.db");
}

void fixture_open(struct fixture *f)
{
	struct error err = {0};

	assert_succeeds(kv_open_sqlite(f->event, f->path, &f->kv, &err), err);
}

void fixture_close(struct fixture *f)
{
	kv_close(f->kv);
	f->kv = NULL;
}
