/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A policy, a key pair and requests that are granted: tests break one thing at a time. */

#include "policy_parse.h"
#include "ticket_check.h"
#include "unit.h"
#include "wire.h"

#include <mounthelper_wire.h>

#define FIXTURE_BOOT_ID "0d3b9a4c-1111-4222-8333-444455556666"
#define FIXTURE_ALLOC "aaaaaaaa-1111-2222-3333-444444444444"
/* the same two in a ticket */
#define FIXTURE_BOOT_ID_BYTES                                                                             \
	{                                                                                                 \
		0x0d, 0x3b, 0x9a, 0x4c, 0x11, 0x11, 0x42, 0x22, 0x83, 0x33, 0x44, 0x44, 0x55, 0x55, 0x66, \
			0x66                                                                              \
	}
#define FIXTURE_ALLOC_BYTES                                                                               \
	{                                                                                                 \
		0xaa, 0xaa, 0xaa, 0xaa, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33, 0x44, 0x44, 0x44, 0x44, 0x44, \
			0x44                                                                              \
	}
#define FIXTURE_BY_ID "holdfast-demo-1"
#define FIXTURE_UUID "0e7a1c3b-5d29-4f68-8a0b-2c4d6e8f1a35"
#define FIXTURE_NOW_MS INT64_C(1700000000000)

enum { FIXTURE_UID = 995, FIXTURE_HELPER_UID = 994, FIXTURE_MAJOR = 7, FIXTURE_MINOR = 3 };

/** Policy text with a block profile "db", a read-only one "ro", an untrusted one "image", a tmpfs one "mem".
 * @extra is put into the agent's block; the ticket key is the fixture's. */
const char *fixture_policy_text(const char *extra);

/** That text, parsed. */
void fixture_policy(const char *extra, struct policy *ret);

/* How tickets are signed together; FIXTURE_TREE is right. */
struct fixture_tree {
	uint8_t leaf_prefix, node_prefix;
	uint32_t magic;
	uint16_t version;
	int which; /* key: 0 to 2 */
};

#define FIXTURE_TREE                                       \
	{                                                  \
		0, 1, TICKET_ROOT_MAGIC, TICKET_VERSION, 0 \
	}

/** Sign @tickets, at most TICKET_BATCH_MAX, together. */
void fixture_sign_tree(struct ticket *tickets, size_t n, const struct fixture_tree *how);

/** Sign @ticket alone with key @which (0 to 2). */
void fixture_sign(struct ticket *ticket, int which);

/** The public key @which. */
const uint8_t *fixture_public_key(int which);

struct mh_stage fixture_stage(void);	   /* block, profile db, writable, with a valid ticket */
struct mh_stage fixture_stage_tmpfs(void); /* profile mem, 1 MiB */
struct mh_publish fixture_publish(void);   /* of fixture_stage() */
struct mh_publish fixture_publish_tmpfs(void);
struct mh_publish fixture_at_slot(struct mh_publish req, uint8_t slot); /* with a ticket for it */
struct mh_unpublish fixture_unpublish(void);
struct mh_unstage fixture_unstage(void);

/** Give the request's ticket the request's own fields again and sign it. */
void fixture_grant_stage(struct mh_stage *req);
void fixture_grant_publish(struct mh_publish *req, const struct mh_source *source);
