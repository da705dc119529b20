/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A node's report of its plugins, compared with the known ones. */

#include "base/error.h"
#include "model/node.h"
#include "state/change.h"

#include <holdfast/driver/v1/driver.pb-c.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <stddef.h>

struct node_entry;
struct server;

/** Notes which keys' tickets the mount helper of @node takes (@keys, of a hello or fingerprint), and
 * compares them. */
void fingerprint_take_keys(const struct server *server, const ProtobufCBinaryData *keys, struct node *node);

/** Compares the keys of @node with the one in use, and logs it once if that is missing. */
void fingerprint_compare_keys(const struct server *server, struct node *node);

/** Takes the trouble of the journal's disk that @fingerprint of @node reports, and logs a change. */
void fingerprint_take_disk(const Holdfast__V1__Fingerprint *fingerprint, struct node *node);

/** Takes the issuer of the certificate that @node shows over new connections, if @fingerprint names one. */
void fingerprint_take_issuer(const Holdfast__V1__Fingerprint *fingerprint, struct node *node);

enum {
	NODE_DRIVERS_MAX = 8,
	NODE_DRIVER_BYTES_MAX = 192 << 10,
	NODE_DRIVERS_MEMORY_MAX = 4 << 20, /* of all: an empty message takes 25 times its bytes, and more */
};

/** @node has exactly the drivers of @fingerprint. STATUS_INVALID_ARGUMENT for more than
 * NODE_DRIVERS_MAX or NODE_DRIVERS_MEMORY_MAX, for one that is no label, named twice or too large: then
 * nothing changes. */
enum status fingerprint_take_drivers(struct node_entry *node, const Holdfast__V1__Fingerprint *fingerprint,
				     struct error *err);

/** @node has exactly @attributes, KeyValue, from its hello. STATUS_INVALID_ARGUMENT for more than
 * NODE_ATTRIBUTES_MAX, for a name or value that is not valid, or named twice: then nothing changes. */
enum status fingerprint_take_attributes(struct node_entry *node,
					Holdfast__Driver__V1__KeyValue *const *attributes, size_t n,
					struct error *err);

/** Stages in @change that @node_id, which is @machine, in @boot_id, has exactly the plugins of @fingerprint:
 * new and changed ones are put, missing ones are deleted; a repeat changes nothing. A CSI plugin that no node
 * has reported yet is taken once it is healthy. STATUS_INVALID_ARGUMENT for more than NODE_PLUGINS_MAX, for
 * one named twice, and for values that do not fit. */
enum status fingerprint_stage(struct server *server, struct change *change, const char *node_id,
			      const char *boot_id, const char *machine,
			      const Holdfast__V1__Fingerprint *fingerprint, struct error *err);
