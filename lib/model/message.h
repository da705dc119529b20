/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Copies between protobuf messages. */

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Everything of @from in a message of @descriptor, by field numbers: what that does not know is left out.
 * Owned by the caller, protobuf_c_message_free_unpacked(); NULL when memory is short. */
ProtobufCMessage *message_convert(const ProtobufCMessageDescriptor *descriptor, const ProtobufCMessage *from);

/** The same; adds the memory that the copy takes to @bytes. */
ProtobufCMessage *message_convert_counted(const ProtobufCMessageDescriptor *descriptor,
					  const ProtobufCMessage *from, size_t *bytes);

/** A copy that is wiped completely: for messages with secrets.
 * @ret owned by the caller, message_free_secret(); NULL without memory */
ProtobufCMessage *message_copy_secret(const ProtobufCMessage *from);

/** Frees a copy of message_copy_secret(); NULL is allowed. */
void message_free_secret(ProtobufCMessage *message);

/** Replace in @to, which is on the heap, every field that @from has under the same name and type, but bytes;
 * messages in them are copied by field numbers. False when memory is short: @to is whole but not complete. */
bool message_copy_fields(ProtobufCMessage *to, const ProtobufCMessage *from);

/** The same for the fields numbered @first and higher of two messages of one type. */
bool message_copy_from(ProtobufCMessage *to, const ProtobufCMessage *from, uint32_t first);

/* Messages that travel as they came: shared, and never changed. */
struct message_list {
	size_t n_refs;
	size_t bytes; /* memory that it takes */
	size_t n;
	ProtobufCMessage *messages[];
};

/** Deep copies of @n messages. @ret owned by the caller, message_list_unref(); NULL if @n is 0. False without
 * memory. */
bool message_list_new(ProtobufCMessage *const *from, size_t n, struct message_list **ret);

/** The same, for one more owner; may be NULL. */
struct message_list *message_list_ref(struct message_list *list);

/** NULL is allowed. */
void message_list_unref(struct message_list *list);

/** How many; 0 of NULL. */
size_t message_list_n(const struct message_list *list);

/** The memory that it takes; 0 of NULL. */
size_t message_list_bytes(const struct message_list *list);

/** Are they set alike, in their order? */
bool message_list_eq(const struct message_list *a, const struct message_list *b);

/** Are they set alike? NULL is as good as empty; lists count in their order, maps too. False when memory is
 * short. */
bool message_eq(const ProtobufCMessage *a, const ProtobufCMessage *b);

/** Replace a field of a message on the heap by a copy of @text. False when memory is short. */
bool message_set_text(char **field, const char *text);

/* The message that protobuf-c generates for every entry of a map<string, string>. */
struct message_text_entry {
	ProtobufCMessage base;
	char *key;
	char *value;
};

#define MESSAGE_ASSERT_TEXT_ENTRY(Entry)                                                             \
	_Static_assert(sizeof(Entry) == sizeof(struct message_text_entry) &&                         \
			       offsetof(Entry, key) == offsetof(struct message_text_entry, key) &&   \
			       offsetof(Entry, value) == offsetof(struct message_text_entry, value), \
		       #Entry " is not a map's entry of texts")

/** Do two map<string, string> have the same keys with the same values, in any order? Costs the product of
 * their sizes. */
bool message_text_maps_eq(struct message_text_entry *const *a, size_t n_a,
			  struct message_text_entry *const *b, size_t n_b);

/** The entry with @key, or NULL. */
struct message_text_entry *message_text_map_find(struct message_text_entry *const *map, size_t n,
						 const char *key);
