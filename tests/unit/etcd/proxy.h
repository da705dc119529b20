/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between a client and etcd, in a thread: passes on, until it is told otherwise. What is dropped of a
 * connection stays dropped; connections that are made later are whole. */

#include <stddef.h>

struct proxy;

enum proxy_fault {
	PROXY_DROP_ANSWERS,  /* of all connections there are */
	PROXY_DROP_REQUESTS, /* likewise */
	PROXY_HOLD_REQUESTS, /* likewise, until */
	PROXY_RELEASE,	     /* delivers them, also of clients that are gone since */
	PROXY_CUT,	     /* of all connections there are; not of what is held */
	PROXY_REFUSE,	     /* and cut, from here on */
	PROXY_ACCEPT,	     /* again */
	PROXY_SLOW,	     /* answers, from here on */
	PROXY_FAST,	     /* again */
};

struct proxy *proxy_new(const char *path, const char *upstream);
void proxy_free(struct proxy *proxy);

/** Returns when it holds. */
void proxy_do(struct proxy *proxy, enum proxy_fault fault);
