/* SPDX-License-Identifier: Apache-2.0 */
/* The sample of a sweep: its text, and that the parts share no place and miss none. */
#include "sample.h"
#include "unit.h"

TEST(text_of_a_part_and_their_number_is_parsed)
{
	static const struct {
		const char *text;
		int r;
		struct sample sample;
	} rows[] = {
		{"1/1", 0, {0, 1}},	     {"2/4", 0, {2, 4}},	{"4/4", 0, {0, 4}},
		{"1234/4", 0, {2, 4}},	     {"1/1000", 0, {1, 1000}},	{"", -EINVAL, {7, 7}},
		{"2", -EINVAL, {7, 7}},	     {"/4", -EINVAL, {7, 7}},	{"2/", -EINVAL, {7, 7}},
		{"2/4/", -EINVAL, {7, 7}},   {"-1/4", -EINVAL, {7, 7}}, {"2/0", -ERANGE, {7, 7}},
		{"2/1001", -ERANGE, {7, 7}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct sample sample = {.part = 7, .parts = 7};

		assert_int_equal(sample_parse(rows[i].text, &sample), rows[i].r);
		assert_int_equal(sample.part, rows[i].sample.part);
		assert_int_equal(sample.parts, rows[i].sample.parts);
	}
}

TEST(every_place_is_in_exactly_one_part)
{
	for (uint64_t place = 0; place < 100; place++) {
		int n = 0;

		for (uint32_t part = 0; part < 4; part++)
			n += sample_has(&(const struct sample){.part = part, .parts = 4}, place);
		assert_int_equal(n, 1);
	}
}
