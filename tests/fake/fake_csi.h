/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* CSI plugins as models, put in the place of service/client.c by the linker: a test that links
 * hf_test_fake_csi calls these instead of a socket.
 *
 * A plugin is known by the path of its socket. What each call does is said by a table of orders, one per
 * method: it can fail, hang, lie, be done and fail nevertheless, vanish. Several plugins (or instances of
 * one) share the storage behind them. Every rule that CSI gives its caller is checked: what breaks one is
 * written down as a violation, and fake_csi_release() fails the test. */

#include "base/error.h"
#include "csi/csi_client.h"
#include "model/node.h"

#include <csi/v1/csi.pb-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	FAKE_CSI_PLUGINS_MAX = 32,
	FAKE_CSI_VOLUMES_MAX = 64,
	FAKE_CSI_TARGETS_MAX = 8, /* of one volume */
	FAKE_CSI_NODES_MAX = 4,	  /* that one volume is attached to */
	FAKE_CSI_RPCS_MAX = 24,
	FAKE_CSI_TEXT = 257,
	FAKE_CSI_PATH = 512,
};

/* What happens to a call. */
enum fake_csi_way {
	FAKE_CSI_OK,
	FAKE_CSI_FAIL,	      /* with a code; nothing is done */
	FAKE_CSI_FAIL_DONE,   /* with a code, although it was done */
	FAKE_CSI_HANG,	      /* nothing is done and nothing answers until the deadline */
	FAKE_CSI_HANG_DONE,   /* done, but nothing answers until the deadline */
	FAKE_CSI_HOLD,	      /* nothing is done until fake_csi_answer() */
	FAKE_CSI_HOLD_DONE,   /* done, and not answered until fake_csi_answer() */
	FAKE_CSI_LIE,	      /* OK with an empty answer, and nothing is done */
	FAKE_CSI_VANISH,      /* the plugin goes down before it is done */
	FAKE_CSI_VANISH_DONE, /* likewise, after it was done */
	FAKE_CSI_WAY_N,
};

struct fake_csi_orders {
	enum fake_csi_way way;
	unsigned int times; /* how often, then FAKE_CSI_OK again */
	enum status code;   /* of FAKE_CSI_FAIL and FAKE_CSI_FAIL_DONE */
	const char *text;   /* of those; NULL: "" */
};

enum fake_csi_ready {
	FAKE_CSI_READY,
	FAKE_CSI_NOT_READY,
	FAKE_CSI_READY_ABSENT,
};

struct fake_csi_plugin {
	char socket[108];
	bool is_up;
	pid_t pid;   /* its process; at first the test's */
	int refusal; /* errno of a connection while it is down; 0: ECONNREFUSED */
	/* what it says of itself; texts are borrowed */
	const char *name;
	const char *version;
	const char *node_id;
	enum fake_csi_ready ready;
	int services[FAKE_CSI_RPCS_MAX]; /* PluginCapability.Service types */
	size_t n_services;
	int controller_rpcs[FAKE_CSI_RPCS_MAX];
	size_t n_controller_rpcs;
	int node_rpcs[FAKE_CSI_RPCS_MAX];
	size_t n_node_rpcs;
	int64_t max_volumes;
	struct topology topology;
	bool has_no_node;    /* the Node service is UNIMPLEMENTED */
	bool checks_volumes; /* NOT_FOUND for a volume that was not created */
	bool needs_node_expansion;
	bool has_addons;	 /* csi-addons: it can fence, and knows its node's addresses */
	const char *clients[12]; /* those; NULL ends them */
	int64_t total, used;	 /* bytes of each volume, as NodeGetVolumeStats has them */
	const char *condition;	 /* likewise; NULL: normal */
	const char *objection;	 /* to each volume that it should confirm; NULL: confirms it */
	struct fake_csi_orders orders[CSI_METHOD_N];
	/* seen */
	unsigned int calls[CSI_METHOD_N];
	uint64_t last_timeout_us[CSI_METHOD_N]; /* as asked for */
};

struct fake_csi_target {
	char path[FAKE_CSI_PATH];
	bool read_only;
	bool is_device;
};

/* A volume of the storage behind all plugins; there from the first time that it is named. */
struct fake_csi_volume {
	char id[FAKE_CSI_TEXT]; /* empty: deleted */
	char name[FAKE_CSI_TEXT];
	int64_t capacity;
	bool is_created;
	char nodes[FAKE_CSI_NODES_MAX][FAKE_CSI_TEXT]; /* the provider's ids; empty: free */
	char staged[FAKE_CSI_PATH];		       /* empty: not */
	struct fake_csi_target targets[FAKE_CSI_TARGETS_MAX];
	unsigned int in_flight;
	/* of the last call that had it */
	char last_secret[64]; /* value of "key" */
	char last_context[64];
	char last_publish_context[64];
	char last_fs_type[32];
	int last_access_mode;
};

struct fake_csi {
	struct fake_csi_plugin plugins[FAKE_CSI_PLUGINS_MAX];
	size_t n_plugins;
	struct fake_csi_volume volumes[FAKE_CSI_VOLUMES_MAX];
	size_t n_volumes; /* ever */
	char snapshots[FAKE_CSI_VOLUMES_MAX][FAKE_CSI_TEXT];
	size_t n_snapshots;   /* ever */
	uint64_t patience_us; /* no call hangs longer, whatever its deadline; 0: its deadline */
	/* what the node's mount table would show; NULL: nobody looks */
	void (*on_mount)(const char *path, const struct fake_csi_target *target, void *userdata);
	void (*on_unmount)(const char *path, void *userdata);
	void *userdata;
	unsigned int clients_made;
	char violation[256]; /* the first one */
};

extern struct fake_csi fake_csi;

/** Nothing is there. */
void fake_csi_init(void);

/** Fails the test on a violation, and on clients that were not freed. */
void fake_csi_release(void);

/** A plugin that is up, with both services and everything that Holdfast can make use of. */
struct fake_csi_plugin *fake_csi_add(const char *socket);

/** Calls in flight end with UNAVAILABLE, those that come fail; or it answers again. */
void fake_csi_set_up(struct fake_csi_plugin *plugin, bool is_up);

/** Order the next @times calls of @method. */
void fake_csi_order(struct fake_csi_plugin *plugin, enum csi_method method, enum fake_csi_way way,
		    unsigned int times, enum status code);

/** Let what is held continue. Returns how many calls that were. */
unsigned int fake_csi_answer(void);

/** The deadline of everything that hangs or is held has come. Returns how many calls that were. */
unsigned int fake_csi_expire(void);

/** How many calls hang or are held. */
unsigned int fake_csi_waiting(void);

/** How many clients stand for the socket. */
unsigned int fake_csi_clients(const char *socket);

/** NULL: never named. */
struct fake_csi_volume *fake_csi_volume(const char *id);

bool fake_csi_is_attached(const char *id, const char *node);
bool fake_csi_is_published(const char *id, const char *path);
