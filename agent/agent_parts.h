/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The agent's parts, between those who make them and those who let them speak to each other. For those files
 * only. */

#include "config.h"

#include "alloc/allocs.h"
#include "alloc/drain.h"
#include "alloc/journal.h"
#include "alloc/task_streams.h"
#include "base/backoff.h"
#include "controller/calls.h"
#include "driver/drivers.h"
#include "helper/client.h"
#include "helper/mount_snapshot.h"
#include "identity/renewal.h"
#include "kernel/mount_table.h"
#include "log/service.h"
#include "model/node.h"
#include "session/fingerprint.h"
#include "session/session.h"
#include "status/local.h"
#include "status/stale.h"
#include "status/volume_usage.h"

struct agent {
	sd_event *event;       /* borrowed */
	struct config *config; /* borrowed */
	char boot_id[UUID_TEXT_SIZE];
	char kernel[NODE_TEXT_MAX + 1];
	char machine[NODE_MACHINE_MAX + 1];
	struct message_list *attributes; /* of this node, for the hello; owned */
	char server[CONFIG_HOST_SIZE +
		    8]; /* for people: that there is a session with, or all that there are */
	struct journal_disk *disk;
	struct journal *journal;
	struct receipts *receipts;
	struct rpc_tls *tls;
	struct rpc_client *rpc;
	char uri[RPC_URI_SIZE]; /* of the node */
	struct renewal *renewal;
	struct helper_client *helper;
	struct mount_snapshot_load mount_snapshot_load;
	struct backoff mount_snapshot_backoff;
	sd_event_source *mount_snapshot_timer;
	struct volume_manager *volumes;
	struct tasks *tasks;
	struct runner_env env;
	struct allocs *allocs;
	struct plugins *plugins;
	struct drivers *drivers; /* of tasks */
	struct task_streams *task_streams;
	struct controller_calls *controller_calls;
	struct session *session;
	sd_event_source *session_timer; /* until the first session */
	bool is_session_started;
	bool knew_history;	      /* the journal had a server's mark at the last hello */
	struct fingerprint_sent sent; /* in this session */
	struct local *local;
	struct scrape *metrics; /* NULL: off */
	struct agent_drain *drain;
	struct service_status *service;
	struct service_watchdog *watchdog;
	struct stale *stale;
	struct volume_usages *usages;
	struct mount_table *mounts;		  /* for the status; NULL: not asked for yet */
	struct mount_table *stage_mounts;	  /* likewise, of devices */
	int64_t certificate_expires_ms;		  /* 0: not known */
	char certificate_issuer[RPC_KEY_ID_SIZE]; /* of its CA's key; "": not known */
	int64_t certificate_warns_ms;		  /* from when on its end is a problem */
	struct error reload_error;		  /* of the last SIGHUP; STATUS_OK: it succeeded */
	struct error broken;			  /* why the loop was ended; status OK: it was not */
};

enum { AGENT_PROBLEMS_MAX = 9, AGENT_PROBLEM_SIZE = ERROR_MSG_MAX + 64 };

/** Read when the certificate in use expires. After each load of it. */
void agent_note_certificate(struct agent *agent);

/** Matters for the operator; the session and the helper have their own. Returns how many. */
size_t agent_problems(const struct agent *agent, char ret[static AGENT_PROBLEMS_MAX][AGENT_PROBLEM_SIZE]);

/** The line that the service manager shows. */
service_text_fn agent_status_text;
