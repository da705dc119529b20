/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One server with its store and port, an operator and two nodes, in one process and one event loop. */

#include "certificate.h"
#include "daemon.h"
#include "fake_node.h"
#include "folder.h"
#include "server.h"
#include "unit_loop.h"

#include "access/audit.h"
#include "base/clock.h"
#include "state/change.h"
#include "state/disk.h"
#include "state/freed.h"

#include <protobuf-c/protobuf-c.h>

#define ID_MARK "837a-8eec1ce19687" /* of namespace default, see model/alloc_id.h */
#define ALLOC_1 "01890001-0000-7000-" ID_MARK
#define ALLOC_3 "01890003-0000-7000-" ID_MARK
#define ALLOC_2 "01890002-0000-7000-" ID_MARK
#define BOOT_1 "b0010000-0000-4000-8000-000000000001"
#define BOOT_2 "b0010000-0000-4000-8000-000000000002"
#define TIMEOUT_US (30 * USEC_PER_SEC) /* a bound for busy machines; nothing waits for it */

struct copied;

struct fixture {
	char dir[FOLDER_SIZE];
	bool acl; /* not as --dev: callers need a certificate or a token */
	uint16_t port;
	struct server *server;
	struct copied *copied; /* of the server's state, checked at the end */
	sd_event *event;
	Holdfast__V1__AccessMode access_mode; /* that volume db offers and allocations ask for */
	bool read_only;			      /* allocations only read */
	bool is_device;			      /* CSI volumes and allocations: attached as a block device */
	const char *source;		      /* volume that allocations ask for; "db" at first */
	uint64_t controller_timeout_us, reservation_ttl_us,
		release_sweep_us;   /* of the next start; 0: default */
	const char *mark_file;	    /* likewise, a second one; NULL: none */
	uint64_t heartbeat_us;	    /* the same; 0: longer than a test */
	struct model_plugin plugin; /* of CSI volumes, on whatever node runs it */
	struct fake_node operator;  /* only its client is used */
	size_t n_nodes;		    /* that have certificates: n1, n2, ...; 0: 2 */
	struct fake_node n1, n2;
};

#define UNTIL(f, condition) RUN_UNTIL((f)->event, condition)

/* Runs the loop for longer than the first tries of whatever repeats (RELEASE_RETRY_MIN_MS), then until it is
 * idle: before asserting that nothing came. */
enum { SETTLE_MS = 3000 };
void settle(struct fixture *f);

/** Lets the time pass in which a server that begins to lead waits for its nodes: another boot counts after
 * it.
 */
void pass_grace(const struct fixture *f);

int setup(void **state);
int setup_three(void **state); /* nodes */
int setup_hundred(void **state);
int setup_acl(void **state);
int teardown(void **state);
/* CSI volume db with its plugin on both nodes; the second lets several nodes write. */
int setup_db(void **state);
int setup_shared_db(void **state);
/* No call broke the rules of CSI, and nothing is attached without its claim. */
int teardown_db(void **state);
#define CLUSTER_TEST(name) TEST_ON(name, struct fixture, f, setup, teardown)

/** The server and its clients, on the folder of the fixture; setup() has started them. */
void cluster_start(struct fixture *f);
void cluster_stop(struct fixture *f);

/** As after kill -9: nothing is said to anybody, and only what is in the store comes back. */
void restart(struct fixture *f);

/** The same, with @between run while there is no server. */
void restart_with(struct fixture *f, void (*between)(struct fixture *f));

/** restart() with all records numbered again in the order of their keys, as a move or a restore does. */
void restart_renumbered(struct fixture *f);

/** One call, answered; @ret may be NULL, else owned by the caller. */
enum status call(struct fake_node *as, const ProtobufCServiceDescriptor *service, const char *method,
		 const ProtobufCMessage *request, ProtobufCMessage **ret, struct error *err);

enum status register_volume(struct fixture *f, struct fake_node *as, struct error *err);
/** Another one. */
enum status register_disk(struct fixture *f, struct fake_node *as, const char *name, const char *disk,
			  struct error *err);
/** Names the file system of all plugins' volumes, as in root's settings; "": none of them is a block device.
 */
void name_fs_type(struct fixture *f, const char *fs_type);

/** A CSI volume "vol-ID" of CSI_PLUGIN with the modes of @f, and what is stored beside it: context "zone"
 * = "z1", secret "key" = "hunter2", file system ext4. */
void register_csi(struct fixture *f, const char *id);

/** What must hold at any time: nothing is attached without a live claim on its node that knows of it. */
void expect_no_stray_attachment(struct fixture *f);

/** Both nodes with the plugin's node service, its controller on n2. */
void connect_csi(struct fixture *f);

enum status run_alloc(struct fixture *f, const char *id, const char *node, struct error *err);
enum status stop_alloc(struct fixture *f, const char *id, struct error *err);
enum status deregister_volume(struct fixture *f, struct error *err);
enum status detach(struct fixture *f, const char *node, const char *reason, struct error *err);

/** The claim that an allocation holds on db, live or not, newest first; a copy. */
struct claim claim_of(struct fixture *f, const char *alloc);
enum claim_state state_of(struct fixture *f, const char *alloc);

/** The newest freed claims of volume "db"; the caller's, freed_list_release(). */
struct freed_list history_of_db(struct fixture *f);
/** How many the store has of it. */
size_t stored_history_of_db(struct fixture *f);

/** Run @during while no write gets to the disk; everything else continues. What it sees is to be judged after
 * it: a failed assertion inside would leave the store locked. */
void while_the_disk_stalls(struct fixture *f, void (*during)(struct fixture *f));

struct new_epoch_result;

/** restore_offline() from the copy at @path. */
enum status restore_from(const struct config *config, const char *path, struct new_epoch_result *ret);

struct sqlite3;

/** Sums of what was changed by hand, so that it is taken for what was written. */
void seal_store(struct sqlite3 *db);

/** The number behind @series of the metrics, "name" or "name{label=\"value\"}"; -1: there is none. */
int64_t metric_of(struct fixture *f, const char *series);

/** How many records of the audit about @about ("node n1") are @what and have @text in their reason or
 * refusal: lines of `volume events`, `node events` and `operator audit`. */
size_t n_events(struct fixture *f, const char *about, const char *what, const char *text);

/** Reviews the warnings; then Server.Warn is on record @begun times about the warning @word, and
 * Server.WarnEnd
 * @ended times. */
void expect_warning_events(struct fixture *f, const char *word, size_t begun, size_t ended);

/** A new allocation runs on the node with its claim of @volume taken. */
void take_claim(struct fixture *f, struct fake_node *node, const char *volume, const char *alloc);
/** Its work is complete, and the node has released the claim. */
void release_claim(struct fixture *f, struct fake_node *node, const char *alloc);

/** Volume db, allocation 1 on n1 with its claim taken. */
void take_volume(struct fixture *f);
