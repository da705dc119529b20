/* SPDX-License-Identifier: Apache-2.0 */
/* A table of keys against texts: the policy of the mount helper tests the details. */

#include "block_keys.h"
#include "unit.h"

enum { KIND_TOP = 0, KIND_A = 1, KIND_B = 2, KIND_OPEN = 3 };

struct object {
	uint32_t kind, number;
	uint64_t size;
	bool flag;
	char text[8];
	uint8_t hex[2][2];
	uint32_t n_hex, word, n_inner;
};

static bool is_lower(const char *text)
{
	return text[0] >= 'a' && text[0] <= 'z';
}

static const char *const kinds[] = {"top", "a", "b", "open"};
static const char *const words[] = {"zero", "one"};

#define AT(field) offsetof(struct object, field)

static const struct block_key keys[] = {
	{"kind", 1 << KIND_OPEN | 1 << KIND_A | 1 << KIND_B, 1 << KIND_OPEN, AT(kind), block_set_word,
	 "a or b", .words = kinds, .size = 3, .makes_kind = true},
	{"number", 1 << KIND_TOP | 1 << KIND_A, 1 << KIND_TOP, AT(number), block_set_u32, "2 to 3", .min = 2,
	 .max = 3},
	{"size", 1 << KIND_A, 1 << KIND_A, AT(size), block_set_size, "a size", .min = 1, .max = 1024},
	{"flag", 1 << KIND_B, 0, AT(flag), block_set_bool, "yes or no"},
	{"text", 1 << KIND_B, 0, AT(text), block_set_string, "lower case", .is_valid = is_lower, .size = 8},
	{"hex", 1 << KIND_B, 0, AT(hex), block_set_hex, "4 digits", .size = 2, .times = 2,
	 .count = AT(n_hex)},
	{"word", 1 << KIND_B, 0, AT(word), block_set_word, "zero or one", .words = words, .size = 2,
	 .initial = "one"},
};
static const struct block_table table = {.keys = keys, .n_keys = ARRAY_SIZE(keys), .kind_words = kinds};

static const char *begin(struct block *block, void *userdata)
{
	block->object = userdata;
	return str_eq(block->name, "no") ? "begins badly" : NULL;
}

static const char *end(const struct block *block, void *userdata)
{
	const struct object *object = userdata;

	assert_ptr_equal(block->object, userdata);
	return object->number == 3 ? "three is bad" : NULL;
}

/* An inner block has an object of its own. */
static const char *begin_inner(struct block *block, void *userdata)
{
	struct object *object = userdata;

	block->object = &object[1];
	return NULL;
}

static const char *end_inner(const struct block *block, void *userdata)
{
	struct object *object = userdata;

	assert_ptr_equal(block->object, &object[1]);
	object->n_inner++;
	return object[1].flag ? "flagged" : NULL;
}

/* The text of blocks called "block" that begin with @kind. */
static enum status read_text(const char *text, uint32_t kind, struct object object[2], struct error *err)
{
	static const struct block_form inner[] = {
		{"inner", "NAME", KIND_B, NULL, begin_inner, end_inner},
		{.word = NULL},
	};
	const struct block_form forms[] = {
		{"block", "WHICH", kind, kind == KIND_TOP ? inner : NULL, begin, end},
		{.word = NULL},
	};
	struct block_lexer lx = {.file = "f", .p = text, .end = text + strlen(text), .line = 1, .err = err};

	return block_read_text(&lx, &table, forms, object);
}

/* "NAME { ..." of one block of @kind. */
static enum status read_block(const char *text, uint32_t kind, struct object *object, struct error *err)
{
	struct object both[2] = {*object};
	char whole[256];
	enum status status;

	(void)str_format(whole, sizeof(whole), "block %s", text);
	status = read_text(whole, kind, both, err);
	*object = both[0];
	return status;
}

TEST(blocks_stand_inside_of_blocks)
{
	struct object object[2] = {{.kind = 0}};

	assert_ok(
		read_text("\n# two\nblock x { number = 2; inner y { text = in }\n inner z { word = zero } }\n"
			  "block x { inner y { text = last } ; number = 2 } ;\n",
			  KIND_TOP, object, NULL));
	assert_int_equal(object[0].n_inner, 3);
	assert_string_equal(object[1].text, "last");
	assert_string_equal(object[0].text, "");
	assert_int_equal(object[1].word, 1);
	/* blocks of the text need no end of a statement between them, those inside do */
	assert_ok(read_text("block x { number = 2 } block x { number = 2 }", KIND_TOP, object, NULL));
	assert_int_equal(read_text("", KIND_TOP, object, NULL), STATUS_OK);
}

TEST(values_go_where_the_table_says)
{
	struct object object = {.kind = 0};

	assert_ok(read_block("x {\n kind = b; flag = yes # comment\n\n text = abcdefg; hex = 0aFF\n"
			     "hex = 0102; word = zero }",
			     KIND_OPEN, &object, NULL));
	assert_int_equal(object.kind, KIND_B);
	assert_true(object.flag);
	assert_string_equal(object.text, "abcdefg");
	assert_int_equal(object.n_hex, 2);
	assert_memory_equal(object.hex, "\x0a\xff\x01\x02", 4);
	assert_int_equal(object.word, 0);
	assert_int_equal(read_block("x { kind = a; size = 1KiB }", KIND_OPEN, &object, NULL), STATUS_OK);
	assert_int_equal(object.size, 1024);
	assert_int_equal(object.word, 0); /* no key of this kind */
	assert_int_equal(read_block("x { }", KIND_B, &object, NULL), STATUS_OK);
	assert_int_equal(object.word, 1); /* the initial one */
}

TEST(mistakes_are_reported_with_line_and_key)
{
	static const struct {
		uint32_t kind;
		const char *text, *message;
	} cases[] = {
		{KIND_TOP, "{", "f:1: expected a name"},
		{KIND_TOP, "x\n{", "f:1: expected { after the name"},
		{KIND_TOP, "x {", "f:1: expected a key or } in block x"},
		{KIND_TOP, "x {\n}", "f:1: block x has no number"},
		{KIND_TOP, "x {\nnumber = 3 }", "f:1: block x: three is bad"},
		{KIND_TOP, "x {\nnumber = 4 }", "f:2: number = 4: must be 2 to 3"},
		{KIND_TOP, "x {\nnumber = 2\nnumber = 2 }", "f:3: number is given more than 1 times"},
		{KIND_TOP, "x {\nnumber 2", "f:2: expected = after the key"},
		{KIND_TOP, "x {\nnumber = {", "f:2: expected a value after ="},
		{KIND_TOP, "x {\nnumber = 2 2", "f:2: expected the end of the line or ; after number"},
		{KIND_TOP, "x {\nflag = yes", "f:2: unknown key 'flag' in block x (top)"},
		{KIND_TOP, "x {\nnumber = 2\ninner y {\nnumber = 2",
		 "f:4: unknown key 'number' in inner y (b)"},
		{KIND_TOP, "x {\nnumber = 2\ninner y {\n} number",
		 "f:4: expected the end of the line or ; after }"},
		{KIND_TOP, "x {\nnumber = 2\ninner y {\nflag = yes }", "f:3: inner y: flagged"},
		{KIND_TOP, "x {\nnumber = 2\ninner y {\ninner z {",
		 "f:4: unknown key 'inner' in inner y (b)"},
		{KIND_TOP, "x {\nnumber = 2\ninner y {}\n", "f:4: expected a key or } in block x"},
		{KIND_TOP, "x { number = 2 }\ninner y {", "f:2: expected: block WHICH {"},
		{KIND_TOP, "x { number = 2 } }", "f:1: expected: block WHICH {"},
		{KIND_TOP, "x { number = 2 }\nblock y { number = \x80", "f:2: "},
		{KIND_TOP, "no {\nunknown", "f:1: block no: begins badly"},
		{KIND_A, "x {\ninner y {", "f:2: unknown key 'inner' in block x (a)"},
		{KIND_A, "x { size = 1025 }", "f:1: size = 1025: must be a size"},
		{KIND_A, "x { }", "f:1: block x has no size"},
		{KIND_OPEN, "x { }", "f:1: block x has no kind"},
		{KIND_OPEN, "x { flag = yes", "f:1: unknown key 'flag' in block x (open)"},
		{KIND_OPEN, "x { kind = top-", "f:1: kind = top-: must be a or b"},
		{KIND_OPEN, "x { kind = a; kind = a", "f:1: kind is given more than 1 times"},
		{KIND_B, "x { text = abcdefgh }", "f:1: text = abcdefgh: must be lower case"},
		{KIND_B, "x { text = Abc }", "f:1: text = Abc: must be lower case"},
		{KIND_B, "x { hex = 01 }", "f:1: hex = 01: must be 4 digits"},
		{KIND_B, "x { hex = 0101; hex = 0101; hex = 0101 }", "f:1: hex is given more than 2 times"},
		{KIND_B, "x { flag = 1 }", "f:1: flag = 1: must be yes or no"},
		{KIND_B, "x { word = two }", "f:1: word = two: must be zero or one"},
		{KIND_B, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa { }",
		 "at most 63 bytes"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct object object = {.kind = 0};
		struct error err = {.msg = ""};

		assert_int_not_equal(read_block(cases[i].text, cases[i].kind, &object, &err), STATUS_OK);
		if (!strstr(err.msg, cases[i].message))
			fail_msg("%s: said %s, should say %s", cases[i].text, err.msg, cases[i].message);
	}
}
