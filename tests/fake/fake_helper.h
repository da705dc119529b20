/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A model of the mount helper: a program that speaks its wire protocol and mounts nothing.
 *
 * "The kernel" and the faults to inject are a file, `state` in the folder of the path by which the program
 * was started, mapped by the program and by the test: what is mounted outlives every instance, as with the
 * real one. */

#include "mounthelper_wire.h"

#include "base/rate.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	FAKE_MOUNTS_MAX = 256,
	FAKE_LOG_MAX = 4096,
	FAKE_PIDS_MAX = 256,
	FAKE_PROFILES_MAX = 16,
	FAKE_FOLDERS_MAX = 32,
};

#define FAKE_PUBLISH_BASE "/run/fake/publish"
#define FAKE_STAGE_BASE "/run/fake/stage"
#define FAKE_PLUGIN "csi.plug" /* the profile of class csi */
#define FAKE_PLUGIN_BASE FAKE_STAGE_BASE "/" MH_CSI_FOLDER "/" FAKE_PLUGIN
#define FAKE_OTHER_PLUGIN "csi.twin" /* likewise; of the same length */
#define FAKE_STATE_NAME "state"

/* What goes wrong with a request. */
enum fake_fault {
	FAKE_FAULT_NONE,
	FAKE_DIE_BEFORE, /* dies without doing it */
	FAKE_DIE_AFTER,	 /* does it and dies without answering */
	FAKE_HANG,	 /* never answers and does not end with its socket; has not locked the volume */
	FAKE_WRONG_SEQ,
	FAKE_OVERSIZE,
	FAKE_SHORT,
	FAKE_TWICE, /* answers twice */
	FAKE_WAIT,  /* does it when the test says go, unless its socket ends before */
	FAKE_LATE,  /* the same, whether its socket ends or not */
	FAKE_FAULT_N,
};

enum fake_start {
	FAKE_START_OK,
	FAKE_START_EXIT,    /* with start_code, and a line on stderr */
	FAKE_START_MUTE,    /* no HELLO */
	FAKE_START_VERSION, /* HELLO of another version */
	FAKE_START_FAILURE, /* FAILURE with start_word, then exit with start_code */
};

struct fake_mount {
	bool is_used;
	char volume[MH_LABEL_SIZE];
	char alloc[MH_UUID_SIZE]; /* empty: a stage */
	uint8_t slot;
	uint8_t read_only;
	uint8_t exec;
	uint8_t propagation;
	uint32_t minor; /* of device 0:minor; a block volume has the device asked for */
	uint32_t major;
};

/* What a plugin has mounted at one of its places. */
struct fake_place {
	bool is_mounted;
	bool is_device;
	uint8_t read_only;
	uint32_t major;
	uint32_t minor;
};

/* The folders of one volume of class csi, which STAGE makes and UNSTAGE removes. */
struct fake_folder {
	bool is_used;
	char volume[MH_LABEL_SIZE];
	struct mh_source source;
	struct fake_place staging;
	struct fake_place targets[2]; /* by read_only */
};

struct fake_log {
	uint16_t op;
	uint16_t status;
	char volume[MH_LABEL_SIZE];
	char alloc[MH_UUID_SIZE];
	uint8_t slot;
	uint8_t class; /* of a STAGE's source */
	pid_t pid;     /* of the instance */
};

struct fake_profile {
	char name[MH_LABEL_SIZE];
	uint8_t class;
	uint8_t is_available;
};

struct fake_state {
	/* set by the test */
	uint32_t fault_call;  /* number of the request, from 1, over all instances; LIST not counted */
	uint32_t fault_calls; /* how many in a row, from there */
	char fault_volume[MH_LABEL_SIZE]; /* only requests of volumes that begin so count and fail */
	uint32_t go;			  /* not 0: what waits continues */
	enum fake_fault fault;
	enum fake_start start;
	uint32_t start_times; /* how many instances start that way */
	int start_code;
	uint16_t start_word;
	uint8_t policy; /* first byte of the digest in HELLO; after a change, who began before refuses, and
			   ends */
	bool policy_never_stays; /* it changes after each start */
	uint8_t launch_mode;	 /* in HELLO; 0: 1 */
	uint8_t ticket_optional;
	uint8_t hello_trail;	  /* enum mh_trail in HELLO */
	bool start_silently;	  /* without the line on stderr */
	uint32_t pages_lost;	  /* the next so many pages that continue a list are answered with CONFLICT */
	uint32_t lists_over_rate; /* the next so many lists of everything are answered with LIMIT */
	uint32_t locked;	  /* the next so many find another instance at work on their volume */
	uint32_t busy_unpublish;  /* the next so many answer BUSY */
	uint32_t busy_unstage;
	uint32_t fail_look;
	uint32_t no_trail; /* the next so many changes are not done, as the trail takes no record */
	uint32_t refuse_stage;
	uint32_t not_mounted; /* the next so many stages find nothing mounted where root wants a disk */
	uint32_t refuse_publish;
	struct rate rate;	  /* of changes; cost_us 0: none */
	uint64_t now_us;	  /* that the rate goes by: the clock of the test */
	bool weak_publish;	  /* publishes come back writable and executable, whatever was asked */
	bool deaf_to_propagation; /* everything is private, whatever was asked */
	bool sb_alive;		  /* UNSTAGE leaves the superblock in use */
	bool refuses_csi;	  /* STAGE of class csi */
	struct fake_profile profiles[FAKE_PROFILES_MAX];
	uint32_t n_profiles;
	/* set by the program */
	uint32_t starts;
	uint32_t calls;	       /* that count for faults */
	uint32_t records_lost; /* of the trail, which was cut */
	uint32_t in_flight;
	uint32_t in_flight_max; /* requests in flight at the same time */
	uint32_t lists;
	uint32_t lists_beside; /* that were answered beside a change in flight */
	pid_t list_pid;	       /* who answered the last one */
	pid_t pids[FAKE_PIDS_MAX];
	uint32_t next_minor;
	struct fake_mount mounts[FAKE_MOUNTS_MAX];
	struct fake_folder folders[FAKE_FOLDERS_MAX];
	uint32_t over_rate;   /* answers that the rate is used up */
	uint32_t replaced;    /* answers that the policy is another one */
	uint32_t plugin_left; /* UNSTAGE found mounts that the plugin should have removed */
	uint32_t n_log;
	struct fake_log log[FAKE_LOG_MAX]; /* STAGE, PUBLISH, UNPUBLISH, UNSTAGE as they were done */
	char violation[128];		   /* the first thing that the real helper would have died of */
};
