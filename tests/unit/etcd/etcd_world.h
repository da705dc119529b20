/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* An etcd of one or three members, below a temporary folder, on unix sockets there. */

#include "hosts.h"
#include "unit_loop.h"

#include "etcd/etcd.h"

#include <sys/types.h>

enum { WORLD_MEMBERS_MAX = 3, WORLD_FOLDER_SIZE = 64, WORLD_URL_SIZE = 128 };

struct etcd_world {
	char folder[WORLD_FOLDER_SIZE];
	size_t n;
	pid_t pids[WORLD_MEMBERS_MAX]; /* 0: stopped */
	char urls[WORLD_MEMBERS_MAX][WORLD_URL_SIZE];
	bool is_tls;
	const struct hosts *hosts; /* borrowed; NULL: all are on this one */
	size_t first_host;	   /* of the members */
};

/** Start @n members and wait until each of them answers. */
struct etcd_world *etcd_world_new(size_t n);
/** One member that takes connections at 127.0.0.1, and of certificates only those of its CA: in its folder
 * are ca.crt and client.crt, client.key; and of another CA other-ca.crt, other.crt and other.key. It is not
 * waited for. */
struct etcd_world *etcd_world_new_tls(void);
/** Three members on @hosts, which stay where they are: each at https://ADDRESS:2379 of its host, of the
 * @first and on, and on a socket as those of etcd_world_new(). In its folder are ca.crt, client.crt and
 * client.key. */
struct etcd_world *etcd_world_new_hosts(const struct hosts *hosts, size_t first);
void etcd_world_free(struct etcd_world *world);

/** One member that all cases of a program share; TEST_GROUP(etcd_world_setup, etcd_world_teardown). */
extern struct etcd_world *etcd_world;
int etcd_world_setup(void **state);
int etcd_world_teardown(void **state);

/** kill -9. */
void etcd_world_kill(struct etcd_world *world, size_t member);
/** Start it again on what it has, and wait until it takes connections. */
void etcd_world_start(struct etcd_world *world, size_t member);

/** The path of the socket of @member. */
const char *etcd_world_socket(const struct etcd_world *world, size_t member);

/* One server's part, with what it was told. */
struct part {
	sd_event *event; /* borrowed */
	struct etcd *etcd;
	struct kv *kv; /* NULL: not open */
	int n_leading, n_lost, n_trouble, n_aside;
	bool has_other_key;
	uint32_t aside;	  /* the schema for which it stands aside */
	char leader[256]; /* that it follows */
	int64_t since_ms;
	struct error lost, trouble;
};

enum { LEASE_S = 3, CALL_MS = 400 };

/** Settings of tests: @url alone, a lease of LEASE_S. */
struct etcd_settings part_settings(const char *const *urls, size_t n, const char *prefix, const char *name);

/** Begin to campaign; @part must stay where it is. */
void part_start(struct part *part, sd_event *event, const struct etcd_settings *settings);
void part_stop(struct part *part);

/** Run the loop until it leads, and open the store. */
void part_lead(struct part *part);
void part_open(struct part *part);

/** Run the loop until *@n is at least @least. */
void run_until(sd_event *event, const int *n, int least);

/** A call of etcd's own from beside: puts @value (NULL: deletes) under the full key. */
void etcd_world_put(const char *url, const char *key, const char *value);
/** When the key was made, and when it was written last. */
void etcd_world_revisions(const char *url, const char *key, int64_t *ret_created, int64_t *ret_written);
/** The same, false if there is no such key. */
bool etcd_world_find(const char *url, const char *key, int64_t *ret_created, int64_t *ret_written);
/** Compact at the latest revision. */
void etcd_world_compact(const char *url);
/** Rewrite the database of this member, which answers nobody meanwhile. */
void etcd_world_defragment(const char *url);
void etcd_world_alarm(const char *url, bool is_on);
