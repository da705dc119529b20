/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include "base/strbuf.h"

#include <inttypes.h>

static char listing[1 << 20];

uint64_t fixture_base;

int fixture_setup_closed(void **state)
{
	struct fixture *f = NON_NULL(calloc(1, sizeof(*f)));

	fixture_base = 0;
	temp_dir_make(f->dir);
	assert_int_equal(sd_event_new(&f->event), 0);
	fixture_prepare(f);
	*state = f;
	return 0;
}

int fixture_setup(void **state)
{
	(void)fixture_setup_closed(state);
	fixture_open(*state);
	return 0;
}

int fixture_teardown(void **state)
{
	cleanup_free struct fixture *f = *state;

	fixture_close(f);
	sd_event_unref(f->event);
	temp_dir_remove(f->dir);
	return 0;
}

void fixture_after_fork(struct fixture *f)
{
	assert_null(f->kv);
	sd_event_unref(f->event); /* does nothing but free its memory in a child */
	assert_int_equal(sd_event_new(&f->event), 0);
}

uint64_t fixture_revision(const struct fixture *f)
{
	return kv_revision(f->kv) - fixture_base;
}

void answer_fill(uint64_t revision, const struct error *err, void *userdata)
{
	struct answer *answer = userdata;

	answer->count++;
	answer->revision = err ? revision : revision - fixture_base;
	answer->err = err ? *err : (struct error){.status = STATUS_OK};
}

void await(struct fixture *f, const struct answer *answer)
{
	while (answer->count == 0)
		assert_true(sd_event_run(f->event, PATIENCE_US) > 0);
}

struct answer commit(struct fixture *f, const struct kv_txn *txn)
{
	struct answer answer = {0};

	assert_int_equal(kv_submit(f->kv, txn, answer_fill, &answer, NULL), STATUS_OK);
	await(f, &answer);
	assert_int_equal(answer.count, 1);
	return answer;
}

void put_async(struct fixture *f, const char *key, const char *value, struct answer *answer)
{
	struct kv_op op = {.key = key, .value = value, .len = value ? strlen(value) : 0};

	assert_ok(kv_submit(f->kv, &(struct kv_txn){.ops = &op, .n_ops = 1}, answer ? answer_fill : NULL,
			    answer, NULL));
}

uint64_t put(struct fixture *f, const char *key, const char *value)
{
	struct answer answer = {0};

	put_async(f, key, value, &answer);
	await(f, &answer);
	assert_msg(answer.err.status == STATUS_OK, "%s", answer.err.msg);
	return answer.revision;
}

static bool list_item(const struct kv_item *item, void *userdata)
{
	struct strbuf *text = userdata;

	strbuf_printf(text, "%s=%.*s@%" PRIu64 ",%" PRIu64 " ", item->key, (int)item->len,
		      (const char *)item->value, item->create_revision - fixture_base,
		      item->mod_revision - fixture_base);
	return true;
}

static const char *take_listing(struct strbuf *text, enum status status)
{
	cleanup_free char *taken = strbuf_take(text);

	assert_int_equal(status, STATUS_OK);
	assert_non_null(taken);
	assert_int_equal(str_copy(listing, sizeof(listing), taken), 0);
	return listing;
}

const char *range_text(struct fixture *f, const char *prefix)
{
	struct strbuf text = STRBUF_INIT(sizeof(listing) - 1);

	return take_listing(&text, kv_range(f->kv, prefix, list_item, &text, NULL));
}
