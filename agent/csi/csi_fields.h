/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The fields of any CSI message, by its descriptor. Borrowed, all of it. */

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is in a field: of a repeated one all, of another one or none. */
struct csi_values {
	const ProtobufCFieldDescriptor *field;
	void *first;
	size_t n;
};

/** A scalar that was never set counts as absent, as proto3 has it. */
struct csi_values csi_values(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/** The value at @i of a field of messages, of strings, of numbers (booleans and enums too). */
ProtobufCMessage *csi_value_message(const struct csi_values *values, size_t i);
const char *csi_value_text(const struct csi_values *values, size_t i);
int64_t csi_value_number(const struct csi_values *values, size_t i);

/** Is it a map from string to string? */
bool csi_is_map(const ProtobufCFieldDescriptor *field);

/** Of an entry of such a map. */
const char *csi_map_key(const ProtobufCMessage *entry);
const char *csi_map_value(const ProtobufCMessage *entry);
