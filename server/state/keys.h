/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Keys in the store. An object's revisions are kept by the store, not in its value. */

#include "kit/meta_keys.h"

#define PREFIX_NODE_PLUGIN "node-plugin/" /* NODE/PLUGIN/PROFILE: NodePlugin */
#define PREFIX_ALLOC "alloc/"		  /* ID: Allocation */

/* Records. */
#define KEY_GENERATION_FLOOR PREFIX_META "generation-floor" /* GenerationFloor */
#define KEY_TICKET_KEY PREFIX_META "ticket-key"		    /* TicketKey */
#define KEY_SIGNING_KEYS PREFIX_META "signing-keys"	    /* SigningKeys */
#define KEY_CA PREFIX_META "ca"				    /* StoredCa */
#define KEY_AUDIT_HEAD PREFIX_META "audit"		    /* AuditHead */
#define KEY_DECISION PREFIX_META "decision"		    /* EpochDecision, on etcd: see new_epoch.h */
#define KEY_FENCING PREFIX_META "fencing"		    /* FencingSwitch */
#define KEY_LAST_BACKUP PREFIX_META "last-backup"	    /* LastBackup */
#define PREFIX_VOLUME_DETAIL "volume-detail/"		    /* NAMESPACE/ID: VolumeDetail */
#define PREFIX_VOLUME_SECRETS "volume-secrets/"		    /* NAMESPACE/ID: VolumeSecrets */
#define PREFIX_ALLOC_OPTIONS "alloc-options/"		    /* ID: AllocationOptions */
#define PREFIX_SNAPSHOT "snapshot/"			    /* PLUGIN/NAMESPACE/NAME: Snapshot */
#define PREFIX_ATTESTATION "attestation/"		    /* NODE/ID: Attestation */
#define PREFIX_TOKEN "token/"				    /* ACCESSOR: StoredToken */
#define PREFIX_REVOCATION "revocation/"			    /* id/IDENTITY, serial/SERIAL: Revocation */
#define PREFIX_ENROLLMENT "enrollment/"			    /* NODE: StoredEnrollment */
#define PREFIX_POLICY "policy/"				    /* NAME: AccessPolicy */
#define PREFIX_JOB "job/"				    /* NAMESPACE/ID: Job */
#define PREFIX_JOB_VERSION "job-version/" /* NAMESPACE/ID/VERSION: Job, as it was submitted */
#define PREFIX_FENCE "fence/"		  /* NODE: Fence, the last power fence; NODE/PLUGIN: network fence */
#define PREFIX_FENCE_CLIENTS "fence-clients/" /* NODE/PLUGIN, of a former machine /BOOT: FenceClients */
#define PREFIX_REPLACED "replaced/"	      /* NODE/MACHINE: ReplacedMachine, see replaced.h */
#define PREFIX_TRAIL "trail/"		      /* NODE: NodeTrail */
#define PREFIX_COUNTED "counted/"	      /* NODE/MACHINE: CountedNode */

/* Records that are stored and not kept in memory. */
#define PREFIX_FREED "freed/"		/* NAMESPACE/VOLUME/ID: Claim, see freed.h */
#define PREFIX_FREED_ID "freed-id/"	/* ID: Claim, of which namespace and volume */
#define PREFIX_FREED_BOOT "freed-boot/" /* NODE/BOOT/ID: likewise */
