/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A node: a machine with an agent, known by its certificate. */

#include "base/error.h"
#include "model/claim.h"
#include "model/fence_net.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	NODE_PLUGINS_MAX = 32,
	NODE_TEXT_MAX = 127,
	NODE_HEALTH_MAX = 511, /* names plugin, socket and call before the reason */
	NODE_REASON_MAX = 255,
	NODE_MACHINE_MAX = 65, /* two digests of 32 hexadecimal digits, "+" between */
	NODE_REFUSED_N = 4,    /* machines */
	NODE_REFUSED_SIZE = NODE_REFUSED_N * (NODE_MACHINE_MAX + 1),
	NODE_KEYS_TEXT_SIZE = 32, /* of two ids of keys */
	NODE_CLOCK_SKEW_WARN_MS = 10000,
	NODE_CLOCK_TEXT_SIZE = 64,
	NODE_PAST_BOOTS_MAX = 8,
	NODE_DISK_PATH_MAX = 127,
	NODE_DISK_TEXT_SIZE = 256,
	TOPOLOGY_SEGMENTS_MAX = 8,
	TOPOLOGY_TEXT_MAX = 63,
};

enum node_status {
	NODE_STATUS_UNSPECIFIED,
	NODE_READY,
	NODE_DISCONNECTED,
	NODE_DOWN,
	NODE_DRAINING,
	NODE_STATUS_N,
};

/* The disk of the agent's journal, as the agent reports it. */
enum node_disk {
	NODE_DISK_ROOM,
	NODE_DISK_FULL,
	NODE_DISK_QUOTA,
	NODE_DISK_INODES,
	NODE_DISK_READ_ONLY,
	NODE_DISK_N,
};

struct topology_segment {
	char key[TOPOLOGY_TEXT_MAX + 1];
	char value[TOPOLOGY_TEXT_MAX + 1];
};

/* Where something can be reached: all segments together. */
struct topology {
	struct topology_segment segments[TOPOLOGY_SEGMENTS_MAX];
	uint32_t n_segments;
};

/* The controller service of a plugin on one node. */
struct controller_half {
	bool healthy;
	char health_description[NODE_HEALTH_MAX + 1];
	bool create_delete;
	bool attach_detach;
	bool list_volumes;
	bool get_capacity;
	bool create_delete_snapshot;
	bool list_snapshots;
	bool clone;
	bool readonly_attach;
	bool expand;
	bool condition;
	bool get_volume;
	bool single_node_multi_writer;
	bool network_fence; /* csi-addons */
};

/* An address of the node, as fence_net_text() has it, or FENCE_NET_UNREADABLE. */
struct fence_client {
	char cidr[FENCE_NET_TEXT_SIZE];
};

/* The node service of a plugin on one node; its health is that of the entry. */
struct node_half {
	char provider_node_id[EXTERNAL_NODE_ID_MAX + 1];
	int64_t max_volumes; /* 0: no limit */
	struct topology topology;
	bool stage;
	bool stats;
	bool expand;
	bool condition;
	bool single_node_multi_writer;
	struct fence_client fence_clients[FENCE_CLIENTS_MAX];
	uint32_t n_fence_clients;
};

/* One entry of a node's fingerprint: a profile of the native plugin, or a CSI plugin. */
struct node_plugin {
	char plugin_id[PLUGIN_ID_MAX + 1];
	char profile[PROFILE_MAX + 1];
	enum source_class class;
	bool healthy;
	char health_description[NODE_HEALTH_MAX + 1];
	char provider[NODE_TEXT_MAX + 1];
	char provider_version[NODE_TEXT_MAX + 1];
	char allocation_id[UUID_TEXT_SIZE];
	bool controller_required;
	bool topology_required;
	bool has_controller;
	struct controller_half controller;
	bool has_node; /* set for native profiles by the reader of the wire form */
	struct node_half node;
	int64_t update_time_ms;
};

/* A boot that was taken as over: it cannot come back. */
struct past_boot {
	char id[UUID_TEXT_SIZE];
	int64_t ended_ms;		    /* when that became known */
	char machine[NODE_MACHINE_MAX + 1]; /* that was in it; empty: not known */
	bool replaced;			    /* it ended as another machine became the node */
};

struct drain {
	int64_t started_ms; /* 0: no drain was ever requested */
	int64_t deadline_ms;
	int64_t done_ms; /* 0: in flight */
	char by[NODE_TEXT_MAX + 1];
	char reason[NODE_TEXT_MAX + 1];
};

struct node {
	char id[NODE_ID_MAX + 1];
	char boot_id[UUID_TEXT_SIZE];
	enum node_status status;
	char agent_version[NODE_TEXT_MAX + 1];
	char kernel[NODE_TEXT_MAX + 1];
	char address[NODE_TEXT_MAX + 1];
	bool ineligible; /* nothing new is placed here */
	char eligibility_reason[NODE_TEXT_MAX + 1];
	struct drain drain;
	uint64_t reported_epoch; /* up to which it has reported its mounts */
	uint64_t stranger_epoch; /* in which it was registered while no node was missing; 0: not so */
	bool report_wanted;	 /* it named work that the server does not know, and has not reported since */
	bool reverted;		 /* in this boot its mark was higher before, and it has not reported since */
	uint64_t mark_epoch, mark_index; /* highest mark of this store that it has shown; index may be 0 */
	struct past_boot past_boots[NODE_PAST_BOOTS_MAX]; /* newest first */
	uint32_t n_past_boots;
	int64_t disconnected_ms; /* since when it has no session; 0: it has one */
	char disconnect_reason[NODE_REASON_MAX +
			       1]; /* why the server ended its last session; empty: it did not */
	int64_t clock_skew_ms;	   /* by how much its clock was ahead of the server's at its hello; below 0:
				      behind */
	char machine[NODE_MACHINE_MAX + 1];    /* that its hellos must show; empty before the first one */
	char other_machine[NODE_REFUSED_SIZE]; /* that were refused, the last one first, with blanks between;
						  may be empty */
	int64_t other_machine_ms;
	uint32_t other_machines;		     /* how many, those that have left the list too */
	char other_ticket_keys[NODE_KEYS_TEXT_SIZE]; /* that its mount helper accepts, as text, if it is not
							the server's; else, or if unknown, empty */
	char certificate_issuer[2 * 20 + 1]; /* identifier of the key that signed its certificate; or empty */
	char ticket_keys[NODE_KEYS_TEXT_SIZE];	/* beginnings of those that it accepts; empty: not known */
	char disk_trouble[16];			/* see node_disk_word(); empty: there is room */
	char disk_path[NODE_DISK_PATH_MAX + 1]; /* of the agent's journal, while there is trouble */
	int64_t last_seen_ms;
	int64_t create_time_ms;
	int64_t modify_time_ms;
	uint64_t create_index;
	uint64_t modify_index;
};

/* A fingerprint entry with its node, as it is stored. */
struct plugin_instance {
	char node_id[NODE_ID_MAX + 1];
	struct node_plugin plugin;
	uint64_t create_index;
	uint64_t modify_index;
};

/** Does the entry serve @volume: the same plugin and, for a native volume, the same profile? */
bool node_plugin_serves(const struct node_plugin *plugin, const struct volume *volume);

/** Does it have a node service that can take volumes now? */
bool node_plugin_is_healthy(const struct node_plugin *plugin);

/** Are all halves that it has healthy? */
bool node_plugin_is_whole(const struct node_plugin *plugin);

/** The reason why a half is not healthy; may be empty. */
const char *node_plugin_health_text(const struct node_plugin *plugin);

/** When the boot @boot_id of the node was found to be over; 0: it is the current one, or not remembered. */
int64_t node_past_boot(const struct node *node, const char *boot_id);

/** The current boot is over: it can never connect again. Above NODE_PAST_BOOTS_MAX the oldest is forgotten. A
 * repeat changes nothing. */
void node_end_boot(struct node *node, int64_t now_ms);

/** @machine is the node from now on. The current boot of the former machine is over. If @machine was the node
 * before, and no other boot was reported since, its boot goes on. */
void node_replace_machine(struct node *node, const char *machine, int64_t now_ms);

/** Is the node the machine that was in the boot @boot_id? Known are the current boot and the past ones. */
bool node_was_in_boot(const struct node *node, const char *boot_id);

/** Which boot the machine that is the node now was in last: after an identify that was taken back, the node's
 * last boot is that of the other machine. */
const char *node_own_boot(const struct node *node);

/** Order of two ids of nodes at a provider. 0: some providers take both for one node, as they ignore case,
 * blanks at the ends, or a + or zeros at the beginning. */
int node_provider_id_compare(const char *a, const char *b);

/** "ID" or "ID+HARDWARE", each of 32 hexadecimal digits: the machine in a hello. */
bool node_machine_is_valid(const char *machine);

/** Are these two machines? A part that one of the two lacks is not compared. */
bool node_machine_differs(const char *a, const char *b);

/** Does @shown have each part of the machine that is @known, and is the same? */
bool node_machine_shows(const char *known, const char *shown);

/** Is @machine among those that were refused under the node's name? */
bool node_machine_was_refused(const struct node *node, const char *machine);

/** Adds @machine, which is valid and not among them. The oldest one makes room. */
void node_refuse_machine(struct node *node, const char *machine);

/** Is a clock that is so far ahead (below 0: behind) worth a warning? */
bool node_clock_is_off(int64_t skew_ms);

/** "2m ahead of", "15s behind". Returns @ret. */
const char *node_clock_text(int64_t skew_ms, char ret[static NODE_CLOCK_TEXT_SIZE]);

/** Is it being drained, and not done? */
bool node_is_draining(const struct node *node);

/** The status of the node: down after @down_after_ms without a session (0 @disconnected_ms: it has one). */
enum node_status node_status_at(const struct node *node, int64_t disconnected_ms, int64_t now_ms,
				int64_t down_after_ms);

/** "full", "quota", "inodes", "read-only"; "" for NODE_DISK_ROOM. */
const char *node_disk_word(enum node_disk disk);

/** NODE_DISK_ROOM if @text is unknown. */
enum node_disk node_disk_of_word(const char *text);

/** As the node reported it last, maybe before it disconnected. */
enum node_disk node_disk_of(const struct node *node);

/** "its disk is full: PATH", "its disk is read-only: PATH". Returns @ret. */
const char *node_disk_text(enum node_disk disk, const char *path, char ret[static NODE_DISK_TEXT_SIZE]);

/** The command that shows what fills it. Returns @ret. */
const char *node_disk_command(enum node_disk disk, const char *path, char ret[static NODE_DISK_TEXT_SIZE]);
