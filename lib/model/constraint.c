/* SPDX-License-Identifier: Apache-2.0 */
#include "model/constraint.h"

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/str.h"

#include <string.h>

typedef Holdfast__V1__Constraint constraint_t;

/* One attribute of a node that may lack it. */
typedef bool is_met_fn(const char *have, const char *wanted);

/* Numbers by value, versions part by part, all else as text: below, above or 0. */
static int compare(const char *a, const char *b)
{
	while (*a != '\0' && *b != '\0') {
		uint64_t x, y;
		const char *end_a = a, *end_b = b;

		if (parse_digits(&end_a, &x) == 0 && parse_digits(&end_b, &y) == 0) {
			if (x != y)
				return x < y ? -1 : 1;
			a = end_a;
			b = end_b;
		} else if (*a != *b) {
			return *a < *b ? -1 : 1;
		} else {
			a++;
			b++;
		}
	}
	return (*a != '\0') - (*b != '\0');
}

static bool is_equal(const char *have, const char *wanted)
{
	return have && str_eq(have, wanted);
}

static bool is_other(const char *have, const char *wanted)
{
	return !is_equal(have, wanted);
}

static bool is_below(const char *have, const char *wanted)
{
	return have && compare(have, wanted) < 0;
}

static bool is_at_most(const char *have, const char *wanted)
{
	return have && compare(have, wanted) <= 0;
}

static bool is_above(const char *have, const char *wanted)
{
	return have && compare(have, wanted) > 0;
}

static bool is_at_least(const char *have, const char *wanted)
{
	return have && compare(have, wanted) >= 0;
}

static bool is_set(const char *have, const char *wanted)
{
	return have != NULL;
}

static bool is_not_set(const char *have, const char *wanted)
{
	return have == NULL;
}

static const struct {
	const char *name;
	is_met_fn *is_met;
	bool has_value;
} operators[] = {
	{"=", is_equal, true},	   {"!=", is_other, true},
	{"<", is_below, true},	   {"<=", is_at_most, true},
	{">", is_above, true},	   {">=", is_at_least, true},
	{"is_set", is_set, false}, {"is_not_set", is_not_set, false},
};

static const char distinct_hosts[] = "distinct_hosts";

static const char *operator_of(const constraint_t *constraint)
{
	return constraint->operator_[0] == '\0' ? "=" : constraint->operator_;
}

/* ARRAY_SIZE(operators): there is no such operator. */
static size_t find_operator(const char *name)
{
	size_t i = 0;

	while (i < ARRAY_SIZE(operators) && !str_eq(operators[i].name, name))
		i++;
	return i;
}

static bool is_of_id(const char *attribute)
{
	return str_eq(attribute, "node.unique.name") || str_eq(attribute, "node.unique.id");
}

static enum status check(const constraint_t *constraint, const char *field, struct error *err)
{
	size_t i = find_operator(operator_of(constraint));

	if (str_eq(operator_of(constraint), distinct_hosts))
		return constraint->attribute[0] == '\0' && constraint->value[0] == '\0'
			       ? STATUS_OK
			       : error_invalid(err, field, "distinct_hosts has no attribute and no value");
	if (!reference_is_of_node(constraint->attribute) && !is_of_id(constraint->attribute))
		return error_invalid(
			err, field,
			"attribute '%.64s' is not known: as in ${attr.cpu.arch}, ${meta.rack} or "
			"${node.unique.name}",
			constraint->attribute);
	if (i == ARRAY_SIZE(operators))
		return error_invalid(
			err, field,
			"operator '%.32s' is not known: =, !=, <, <=, >, >=, is_set, is_not_set or "
			"distinct_hosts",
			constraint->operator_);
	if (operators[i].has_value != (constraint->value[0] != '\0'))
		return error_invalid(err, field, "operator %s %s value", operators[i].name,
				     operators[i].has_value ? "needs a" : "has no");
	if (!node_attribute_value_is_valid(constraint->value))
		return error_invalid(err, field, "value '%.64s' can be that of no attribute",
				     constraint->value);
	return STATUS_OK;
}

static const constraint_t *constraint_of(const struct alloc *alloc, size_t i)
{
	return (const constraint_t *)(const void *)alloc->constraints->messages[i];
}

enum status alloc_validate_constraints(const struct alloc *alloc, struct error *err)
{
	enum status status = STATUS_OK;

	for (size_t i = 0; i < message_list_n(alloc->constraints); i++) {
		char field[ERROR_FIELD_SIZE];
		struct error one;

		(void)str_format(field, sizeof(field), "constraint[%zu]", i);
		status = error_collect(status, check(constraint_of(alloc, i), field, &one), &one, err);
	}
	return status;
}

static const char *value_of(const constraint_t *constraint, const char *node_id,
			    const struct message_list *attributes)
{
	return is_of_id(constraint->attribute) ? node_id : node_attribute(attributes, constraint->attribute);
}

bool constraints_allow_node(constraint_t *const *constraints, size_t n, const char *node_id,
			    const struct message_list *attributes)
{
	for (size_t i = 0; i < n; i++) {
		size_t k = find_operator(operator_of(constraints[i]));

		if (k < ARRAY_SIZE(operators) &&
		    !operators[k].is_met(value_of(constraints[i], node_id, attributes),
					 constraints[i]->value))
			return false;
	}
	return true;
}

bool constraints_find_unmet(const struct alloc *alloc, const char *node_id,
			    const struct message_list *attributes, size_t n_same,
			    char ret[static CONSTRAINT_TEXT_SIZE])
{
	for (size_t i = 0; i < message_list_n(alloc->constraints); i++) {
		const constraint_t *constraint = constraint_of(alloc, i);
		const char *have = value_of(constraint, node_id, attributes);
		size_t k = find_operator(operator_of(constraint));

		if (k < ARRAY_SIZE(operators) && operators[k].is_met(have, constraint->value))
			continue;
		if (k == ARRAY_SIZE(operators) && n_same == 0)
			continue;
		if (k == ARRAY_SIZE(operators))
			(void)str_format(ret, CONSTRAINT_TEXT_SIZE,
					 "distinct_hosts, and it has a member of the group");
		else
			(void)snprintf(ret, CONSTRAINT_TEXT_SIZE, "%.63s %s%s%.63s, and it %s%.63s",
				       constraint->attribute, operators[k].name,
				       constraint->value[0] != '\0' ? " " : "", constraint->value,
				       have ? "is " : "is not set", have ? have : "");
		return true;
	}
	return false;
}
