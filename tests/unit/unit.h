/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cmocka with the headers it needs, in the order it needs them, the headers that nearly every test needs
 * (cleanup.h has those of C as well), and cases that register themselves:
 * TEST(name) {...} is a case, which finds its fixture in state. A program runs its cases in the order of
 * their lines. */

/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include "base/cleanup.h"
#include "base/str.h"

#include <protobuf-c/protobuf-c.h>
#include <string.h>

/* Cases, fixtures and models are given parameters whether they use them or not. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* Add a case; @line gives its place among the others. */
void unit_add(const struct CMUnitTest *test, int line);

/* What is run before the first case and after the last one. */
void unit_group(CMFixtureFunction setup, CMFixtureFunction teardown);

/* Run all cases; returns how many failed. main() of a test that has none of its own. */
int unit_run(void);

/* Behind the macros below. */
void *unit_zeroed(size_t size);
void unit_succeeds(bool is_ok, const char *msg, const char *file, int line);
void unit_contains(const char *text, const char *part, const char *file, int line);

/* A case with a fixture of its own: @setup and @teardown may be NULL. */
#define TEST_FIXTURE(name, setup, teardown)                                                         \
	static void name(void **state);                                                             \
	__attribute__((constructor)) static void name##_add(void)                                   \
	{                                                                                           \
		unit_add(&(const struct CMUnitTest){#name, name, setup, teardown, NULL}, __LINE__); \
	}                                                                                           \
	static void name(void **state)

#define TEST(name) TEST_FIXTURE(name, NULL, NULL)

/* A case whose body has its fixture as @var, a pointer to @type. */
#define TEST_ON(name, type, var, setup, teardown)                                                          \
	static void name(type *var);                                                                       \
	static void name##_case(void **state)                                                              \
	{                                                                                                  \
		name(*state);                                                                              \
	}                                                                                                  \
	__attribute__((constructor)) static void name##_add(void)                                          \
	{                                                                                                  \
		unit_add(&(const struct CMUnitTest){#name, name##_case, setup, teardown, NULL}, __LINE__); \
	}                                                                                                  \
	static void name(type *var)

/* Set-up and tear-down of such a fixture: @var is zeroed memory at first, and is freed behind the tear-down.
 */
#define UNIT_SETUP(name, type, var)                 \
	static void name##_body(type *var);         \
	static int name(void **state)               \
	{                                           \
		*state = unit_zeroed(sizeof(type)); \
		name##_body(*state);                \
		return 0;                           \
	}                                           \
	static void name##_body(type *var)

#define UNIT_TEARDOWN(name, type, var)      \
	static void name##_body(type *var); \
	static int name(void **state)       \
	{                                   \
		name##_body(*state);        \
		free(*state);               \
		return 0;                   \
	}                                   \
	static void name##_body(type *var)

/* A row of a table. Its fields share lines, while those of plain braces have one each. */
#define ROW(...)            \
	{                   \
		__VA_ARGS__ \
	}

/* A message of protobuf-c, NAME as its descriptor begins, with some of its fields. V1() is for messages of
 * holdfast.v1. */
#define PB(name, ...)                                                                       \
	__extension__({                                                                     \
		__typeof__(*name##__unpack(NULL, 0, NULL)) pb_ = {                          \
			.base = PROTOBUF_C_MESSAGE_INIT(&name##__descriptor), __VA_ARGS__}; \
		unit_fill_texts(&pb_.base);                                                 \
		pb_;                                                                        \
	})
#define V1(name, ...) PB(holdfast__v1__##name, __VA_ARGS__)

/* Texts that were left out are "", as in messages that were unpacked. */
static inline void unit_fill_texts(ProtobufCMessage *message)
{
	for (unsigned int i = 0; i < message->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
		const char **text = (const char **)(void *)((char *)message + field->offset);

		if (field->type == PROTOBUF_C_TYPE_STRING && field->label == PROTOBUF_C_LABEL_NONE &&
		    !(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) && !*text)
			*text = protobuf_c_empty_string;
	}
}

/* For a pointer to any message. */
static inline void unit_message_freep(void *message)
{
	protobuf_c_message_free_unpacked(*(ProtobufCMessage **)message, NULL);
}

#define cleanup_pb cleanup(unit_message_freep)

/* A text for a message that is only read. */
#define TEXT(text) ((char *)(uintptr_t)(text))

/* A call succeeds; with the error that it fills if it fails. */
#define assert_ok(call) assert_int_equal(call, STATUS_OK)
#define assert_succeeds(call, err) unit_succeeds((call) == STATUS_OK, (err).msg, __FILE__, __LINE__)

/* The pointer, which is not NULL. */
#define NON_NULL(pointer)                            \
	__extension__({                              \
		__typeof__(pointer) it_ = (pointer); \
		assert_non_null(it_);                \
		it_;                                 \
	})

/* The condition holds; with a message if not. */
#define assert_msg(condition, ...)             \
	do {                                   \
		if (!(condition))              \
			fail_msg(__VA_ARGS__); \
	} while (0)

/* @text has @part somewhere. */
#define assert_contains(text, part) unit_contains(text, part, __FILE__, __LINE__)

/* A call fails with @status, and @part is in the text of the error that it fills. */
#define assert_error(call, status, err, part)                       \
	do {                                                        \
		assert_int_equal(call, status);                     \
		unit_contains((err).msg, part, __FILE__, __LINE__); \
	} while (0)

/* Begins the model of a function that the program is linked to replace (--wrap). */
#define WRAPPED(type, name, ...)         \
	type __wrap_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__)

/* At most once in a program. */
#define TEST_GROUP(setup, teardown)                              \
	__attribute__((constructor)) static void group_add(void) \
	{                                                        \
		unit_group(setup, teardown);                     \
	}
