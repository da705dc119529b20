/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of docs/access-modes.md about access modes say what admission does: every pair of modes, for
 * reading and for writing, on the same node and on another one. */

#include "fixture.h"

#include "base/fd.h"
#include "base/strbuf.h"

enum { MANUAL_MAX = 1024 * 1024, TABLE_MAX = 64 * 1024, USES_MAX = 2 * ACCESS_MODE_N };

/* A claim as it can be: a mode, and what is done under it. */
struct use {
	enum access_mode access;
	enum claim_mode mode;
	char text[64];
};

static size_t all_uses(struct use uses[static USES_MAX])
{
	size_t n = 0;

	for (int a = ACCESS_MODE_UNSPECIFIED + 1; a < ACCESS_MODE_N; a++)
		for (int m = CLAIM_READ; m <= CLAIM_WRITE; m++) {
			struct use *use = &uses[n];

			*use = (struct use){.access = (enum access_mode)a, .mode = (enum claim_mode)m};
			if (m == CLAIM_WRITE && !access_mode_is_writer(use->access))
				continue; /* there is no such claim */
			(void)str_format(use->text, sizeof(use->text), "%s, %s",
					 access_mode_name(use->access), claim_mode_name(use->mode));
			n++;
		}
	return n;
}

static bool has_room(const struct use *held, const struct use *new, const char *node)
{
	struct claim claim = a_claim(CLAIM_TAKEN); /* on n1 */
	const struct claim *claims[] = {&claim};
	const struct claim *blocker;

	claim.access_mode = held->access;
	claim.mode = held->mode;
	return admission_has_room((struct capability){new->access, claim.attachment_mode}, new->mode, node,
				  claims, 1, &blocker);
}

static const char *cell(const struct use *held, const struct use *new)
{
	bool same = has_room(held, new, "n1");
	bool other = has_room(held, new, "n2");

	assert_true(same || !other); /* being elsewhere is never easier */
	return other ? "yes" : same ? "same node" : "no";
}

/* What a volume of one mode allows. */
static void write_own(struct strbuf *sb, const struct use *uses, size_t n)
{
	strbuf_puts(sb, "| held under, for | another reader | another writer |\n|---|---|---|\n");
	for (size_t i = 0; i < n; i++) {
		struct use reader = {.access = uses[i].access, .mode = CLAIM_READ};
		struct use writer = {.access = uses[i].access, .mode = CLAIM_WRITE};

		strbuf_printf(sb, "| %s | %s | %s |\n", uses[i].text, cell(&uses[i], &reader),
			      cell(&uses[i], &writer));
	}
}

/* What two claims of different modes allow: the rules of both. */
static void write_pairs(struct strbuf *sb, const struct use *uses, size_t n)
{
	strbuf_puts(sb, "| held | requested: `abcdefghijkl` |\n|---|---|\n");
	for (size_t i = 0; i < n; i++) {
		strbuf_printf(sb, "| %c: %s | `", (char)('a' + i), uses[i].text);
		for (size_t k = 0; k < n; k++) {
			const char *text = cell(&uses[i], &uses[k]);

			strbuf_printf(sb, "%c", str_eq(text, "no") ? '-' : text[0]);
		}
		strbuf_puts(sb, "` |\n");
	}
}

TEST(the_manual_matches_admission)
{
	static void (*const tables[])(struct strbuf *, const struct use *, size_t) = {write_own, write_pairs};
	cleanup_free char *manual = NULL;
	struct use uses[USES_MAX];
	size_t n = all_uses(uses);

	assert_int_equal(n, 12);
	assert_int_equal(file_read(ACCESS_MODES_MANUAL, MANUAL_MAX, &manual, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		cleanup_strbuf struct strbuf sb = STRBUF_INIT(TABLE_MAX);

		tables[i](&sb, uses, n);
		assert_int_equal(sb.error, 0);
		if (strstr(manual, sb.data))
			continue;
		/* whole, to be copied: longer than messages of cmocka are */
		(void)fprintf(stderr, "docs/access-modes.md has not this table:\n\n%s\n[end]\n", sb.data);
		fail();
	}
}
