/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include "model/alloc_validate.h"
#include "model/constraint.h"

static Holdfast__V1__Constraint constraint(const char *attribute, const char *operator, const char * value)
{
	Holdfast__V1__Constraint one = V1(constraint, .attribute = TEXT(attribute),
					  .operator_ = TEXT(operator), .value = TEXT(value));

	return one;
}

static struct alloc with(Holdfast__V1__Constraint *one)
{
	struct alloc alloc = an_alloc(ALLOC_1, "n1");
	ProtobufCMessage *list[] = {&one->base};

	assert_true(message_list_new(list, 1, &alloc.constraints));
	return alloc;
}

/* A node of rack r2 with four cores and kernel 6.1.0-10. */
static struct message_list *attributes(void)
{
	static const char *const texts[][2] = {
		{"meta.rack", "r2"}, {"attr.cpu.numcores", "4"}, {"attr.kernel.version", "6.1.0-10-amd64"}};
	Holdfast__Driver__V1__KeyValue pairs[ARRAY_SIZE(texts)];
	ProtobufCMessage *list[ARRAY_SIZE(texts)];
	struct message_list *ret;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		holdfast__driver__v1__key_value__init(&pairs[i]);
		pairs[i].key = TEXT(texts[i][0]);
		pairs[i].value = TEXT(texts[i][1]);
		list[i] = &pairs[i].base;
	}
	assert_true(message_list_new(list, ARRAY_SIZE(texts), &ret));
	return ret;
}

TEST(operators_compare_the_attribute_of_the_node)
{
	static const struct {
		const char *attribute, *operator, * value;
		const char *unmet; /* NULL: the node meets it */
	} cases[] = {
		{"meta.rack", "", "r2", NULL},
		{"meta.rack", "=", "r1", "meta.rack = r1, and it is r2"},
		{"meta.rack", "!=", "r1", NULL},
		{"meta.rack", "!=", "r2", "meta.rack != r2, and it is r2"},
		{"meta.row", "=", "r1", "meta.row = r1, and it is not set"},
		{"meta.row", "!=", "r1", NULL},
		{"meta.row", ">", "0", "meta.row > 0, and it is not set"},
		{"meta.row", "is_set", "", "meta.row is_set, and it is not set"},
		{"meta.row", "is_not_set", "", NULL},
		{"meta.rack", "is_set", "", NULL},
		{"meta.rack", "is_not_set", "", "meta.rack is_not_set, and it is r2"},
		{"attr.cpu.numcores", ">=", "4", NULL},
		{"attr.cpu.numcores", "<", "16", NULL},
		{"attr.cpu.numcores", "<=", "4", NULL},
		{"attr.cpu.numcores", ">", "16", "attr.cpu.numcores > 16, and it is 4"},
		{"attr.cpu.numcores", "<=", "3", "attr.cpu.numcores <= 3, and it is 4"},
		{"attr.kernel.version", ">=", "5.10", NULL},
		{"attr.kernel.version", ">", "6.1.0-9", NULL},
		{"attr.kernel.version", "<", "6.1", "attr.kernel.version < 6.1, and it is 6.1.0-10-amd64"},
		{"node.unique.name", "=", "n1", NULL},
		{"node.unique.name", "!=", "n1", "node.unique.name != n1, and it is n1"},
	};
	struct message_list *have = attributes();

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		Holdfast__V1__Constraint one =
			constraint(cases[i].attribute, cases[i].operator, cases[i].value);
		struct alloc alloc = with(&one);
		char text[CONSTRAINT_TEXT_SIZE] = "";
		bool is_unmet = constraints_find_unmet(&alloc, "n1", have, 0, text);

		assert_int_equal(alloc_validate(&alloc, NULL), STATUS_OK);
		assert_msg(is_unmet == (cases[i].unmet != NULL), "%s %s %s", cases[i].attribute,
			   cases[i].operator, cases[i].value);
		if (is_unmet)
			assert_string_equal(text, cases[i].unmet);
		message_list_unref(alloc.constraints);
	}
	message_list_unref(have);
}

TEST(distinct_hosts_keeps_members_of_a_group_apart)
{
	Holdfast__V1__Constraint one = constraint("", "distinct_hosts", "");
	struct alloc alloc = with(&one);
	char text[CONSTRAINT_TEXT_SIZE];

	assert_int_equal(alloc_validate(&alloc, NULL), STATUS_OK);
	assert_false(constraints_find_unmet(&alloc, "n1", NULL, 0, text));
	assert_true(constraints_find_unmet(&alloc, "n1", NULL, 1, text));
	assert_string_equal(text, "distinct_hosts, and it has a member of the group");
	message_list_unref(alloc.constraints);
}

TEST(a_constraint_that_no_node_could_meet_is_refused)
{
	static const struct {
		const char *attribute, *operator, * value;
		const char *error;
	} cases[] = {
		{"attr.driver.docker", "=", "1",
		 "constraint[0]: attribute 'attr.driver.docker' is not known"},
		{"NOMAD_ALLOC_ID", "=", "1", "attribute 'NOMAD_ALLOC_ID' is not known"},
		{"meta.rack", "regexp", "r.", "operator 'regexp' is not known"},
		{"meta.rack", "=", "", "operator = needs a value"},
		{"meta.rack", "is_set", "1", "operator is_set has no value"},
		{"meta.rack", "=", "/etc", "value '/etc' can be that of no attribute"},
		{"meta.rack", "distinct_hosts", "", "distinct_hosts has no attribute and no value"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		Holdfast__V1__Constraint one =
			constraint(cases[i].attribute, cases[i].operator, cases[i].value);
		struct alloc alloc = with(&one);
		struct error err = {.msg = ""};

		assert_int_equal(alloc_validate(&alloc, &err), STATUS_INVALID_ARGUMENT);
		assert_msg(strstr(err.msg, cases[i].error), "%s", err.msg);
		message_list_unref(alloc.constraints);
	}
}
