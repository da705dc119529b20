/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The events that lib/log writes to the journal with an id of their own. The agent logs those of the mount
 * helper from its trail: the helper cannot reach the journal.
 *
 * The ids and their meaning never change: people filter by MESSAGE_ID=, and systemd/holdfast-*.catalog
 * explains each. X(SYMBOL, name, MESSAGE_ID, result, level, end): name is HOLDFAST_EVENT=; result is
 * HOLDFAST_RESULT=, NULL where it is neither; level is PRIORITY=, and end the one of a line that reports
 * the end of it, or a good one: the same for most. */

#define JOURNAL_EVENTS_SERVER(X)                                                                            \
	X(SERVER_LISTENING, "server-listening", "9197a7affa3a4f4db846717c63d28f17", "success", NOTICE,      \
	  NOTICE)                                                                                           \
	X(NODE_CONNECTED, "node-connected", "b9cc2f0ba2ea4af9a577d7ee6e8f4105", "success", NOTICE, NOTICE)  \
	X(NODE_NEW_BOOT, "node-new-boot", "1c6b3ce828e14a3e9453a53da825001b", "success", NOTICE, NOTICE)    \
	X(NODE_DISCONNECTED, "node-disconnected", "8054f95e617f49569576bae54f01a3f0", NULL, NOTICE, NOTICE) \
	X(NODE_DOWN, "node-down", "6bbb76fcbf69414f9b57855ecd7baf93", NULL, WARNING, WARNING)               \
	X(CLAIM_GRANTED, "claim-granted", "678c1d1cb7af417c8746c45711419a6e", "success", NOTICE, NOTICE)    \
	X(CLAIM_REFUSED, "claim-refused", "d977de185d3c4d829fa81145187a41ee", "failed", NOTICE, NOTICE)     \
	X(CLAIM_FREED, "claim-freed", "9001bf4f33f04dd587e423963473c620", "success", NOTICE, NOTICE)        \
	X(RELEASE_STUCK, "release-stuck", "86b1bccb3c0945b0841ed0c458c51abf", "failed", WARNING, WARNING)   \
	X(OPERATOR_WORD, "operator-word", "247b2d63d32c4798a09747af68c3d90c", "success", NOTICE, NOTICE)    \
	X(CERTIFICATE_EXPIRES, "certificate-expires", "31e61a13488c4f9f9138768b3db54d96", NULL, WARNING,    \
	  WARNING)                                                                                          \
	X(STORE_FAILED, "store-failed", "a2f7c6c74c83468fbbedd8d4dcac33e2", "failed", ERR, ERR)             \
	X(STORE_RESTORED, "store-restored", "18da83979a9843188473da0dca9387d4", "success", NOTICE, NOTICE)  \
	X(HISTORY_LOST, "history-lost", "09fd2093987d49a89524245ae2a699da", "failed", CRIT, CRIT)           \
	X(VOLUME_FULL, "volume-full", "15e0c09ed40f4d02a9986ea006423326", NULL, WARNING, WARNING)           \
	X(VOLUME_HAS_ROOM, "volume-has-room", "55a3cbeb65bb4ed89ffdbc4316bb891c", NULL, NOTICE, NOTICE)     \
	X(VOLUME_CONDITION, "volume-condition", "1328d5064ba74de19b5abedbc4d8c242", NULL, WARNING, NOTICE)  \
	X(VOLUME_HELD_TWICE, "volume-held-twice", "b2f0d4c1a7e94c5f8d36e1579ab04c2e", "failed", CRIT, CRIT) \
	X(DISK_FULL, "disk-full", "7e6c0f5b1b7a4c0e9d1a52f0c6be1c84", "failed", ERR, ERR)                   \
	X(NODE_FENCED, "node-fenced", "4f0c6a52e1d94b7a8a3f5d0b7c1e9a64", "success", NOTICE, NOTICE)        \
	X(FENCE_UNPROVED, "fence-unproved", "c0a3b1d85f7e4a2c9b6d3e8f17a05c42", "failed", ERR, ERR)         \
	X(FENCER_AWAY, "fencer-away", "91e2d7c4a6b84f3f8d5c0e1b2a7f6394", "failed", WARNING, WARNING)       \
	X(REQUEST_REFUSED, "request-refused", "c325dbbd20fd4f69916caa2d3a5158a2", "failed", NOTICE, NOTICE)

#define JOURNAL_EVENTS_AGENT(X)                                                                            \
	X(SESSION_UP, "session-up", "d2f34e28541144f39acb427cf62fbfbc", "success", NOTICE, NOTICE)         \
	X(SESSION_DOWN, "session-down", "b42fcbf1e54647cc829e19c538cfaf01", NULL, WARNING, WARNING)        \
	X(ALLOCATION_RUNNING, "allocation-running", "4c0f182a792c43359197e7f6dc77fa19", "success", NOTICE, \
	  NOTICE)                                                                                          \
	X(ALLOCATION_FAILED, "allocation-failed", "eb4874d0ddd8453290d9e23ffe31d395", "failed", ERR, ERR)  \
	X(ALLOCATION_STOPPED, "allocation-stopped", "5618fe35aa954545a6c72793ef1e6c52", "success", NOTICE, \
	  NOTICE)                                                                                          \
	X(ALLOCATION_LOST, "allocation-lost", "62e34e3d1a04448ba3a0f62e7184a29e", "failed", WARNING,       \
	  WARNING)                                                                                         \
	X(UNIT_RUNS, "unit-runs", "da9a352afd594e16b93e8583aae5118e", "success", NOTICE, NOTICE)           \
	X(UNIT_ENDED, "unit-ended", "b63a3819ae844b84a40e66f6f9f637f3", "success", NOTICE, NOTICE)         \
	X(UNIT_STOPPED, "unit-stopped", "5ace728c9faa484bae7e9d788b87f007", "success", NOTICE, NOTICE)     \
	X(UNIT_FAILED, "unit-failed", "d4b862bb1cb34a7ea471eb3565a6955d", "failed", ERR, ERR)              \
	X(UNIT_REFUSED, "unit-refused", "8afc4b81bcfa4edc9d133ffc6fa39d2e", "failed", ERR, ERR)            \
	X(UNIT_WAITS, "unit-waits", "543c2dbf3e91425eac0a8d041fbbdc55", "failed", WARNING, WARNING)        \
	X(VOLUME_CLAIMED, "volume-claimed", "188292d88d834ed29fb54842b73536f3", "success", INFO, INFO)     \
	X(VOLUME_PUBLISHED, "volume-published", "7e7332e4d4f44202803aa54bde1e80cd", "success", NOTICE,     \
	  NOTICE)                                                                                          \
	X(VOLUME_UNPUBLISHED, "volume-unpublished", "12e0aa4a9bd24f0a9d2a7347aa66afb6", "success", NOTICE, \
	  NOTICE)                                                                                          \
	X(CLAIM_WAITS, "claim-waits", "af00b8ae46a4432e9e169bf99cc00551", "failed", WARNING, WARNING)      \
	X(RELEASE_WAITS, "release-waits", "cec1a1efde8845d8bdb403e262609f1e", "failed", WARNING, WARNING)  \
	X(HELPER_RUNS, "helper-runs", "3188ca9229a9465eb4739ce96abd73ff", "success", INFO, INFO)           \
	X(HELPER_DOWN, "helper-down", "e166c621363142968d6c218c8f453372", "failed", ERR, ERR)              \
	X(PLUGIN_HEALTHY, "plugin-healthy", "8319f91af3374436b9a8d91b65fad36d", "success", NOTICE, NOTICE) \
	X(PLUGIN_UNHEALTHY, "plugin-unhealthy", "e14fb5fffb4e4f32a75887901339ad03", "failed", WARNING,     \
	  WARNING)                                                                                         \
	X(PLUGIN_GONE, "plugin-gone", "db68fd414a5a4f5782a55a60913dd40f", NULL, NOTICE, NOTICE)            \
	X(MOUNT_STALE, "mount-stale", "8691491082704ea39fa76e944b2f7de7", "failed", WARNING, WARNING)      \
	X(MOUNT_ANSWERS, "mount-answers", "bb58f651c2e7480cb8a6fdee1c2c3c1f", "success", NOTICE, NOTICE)   \
	X(MOUNT_DIFFERS, "mount-differs", "a6c40e166b6c490b87dc524dc99cf10c", "failed", ERR, ERR)          \
	X(MOUNT_CONDITION, "mount-condition", "c42efc9919a34d868de071e3628f73c9", NULL, WARNING, NOTICE)   \
	X(NODE_DISK_FULL, "node-disk-full", "0d6d0f8ae2c34b5fb8a3a7c7f4f3b2e6", "failed", ERR, ERR)        \
	X(NODE_DISK_HAS_ROOM, "node-disk-has-room", "c3b1de9f60be4f3f9a6e52c1d0a7754b", "success", NOTICE, \
	  NOTICE)                                                                                          \
	X(NODE_DRAINED, "node-drained", "11849206166a45599e581aac7b44c3bb", NULL, WARNING, NOTICE)         \
	X(JOURNAL_BROKEN, "journal-broken", "5c6ea10f747b49eabd5614ec14aa93e4", "failed", ERR, ERR)

#define JOURNAL_EVENTS_HELPER(X)                                                                             \
	X(HELPER_STARTED, "helper-started", "687c58c6873f4668a2c8f36bb4526edb", "success", INFO, INFO)       \
	X(MOUNT_STAGED, "mount-staged", "dacc34f514db4a2fbe8713951f70f597", "success", INFO, INFO)           \
	X(MOUNT_PUBLISHED, "mount-published", "39405fa89dcd4bcd80ac91e81fb10f1f", "success", INFO, INFO)     \
	X(MOUNT_UNPUBLISHED, "mount-unpublished", "e7213278b77c4c7090b98ace672a0ce7", "success", INFO, INFO) \
	X(MOUNT_UNSTAGED, "mount-unstaged", "0da64eb625d1490899d7522c7d09f802", "success", INFO, INFO)       \
	X(MOUNT_FAILED, "mount-failed", "c03c0b2636d2406a822aa0ed0e30fb86", "failed", WARNING, WARNING)      \
	X(MOUNT_REFUSED, "mount-refused", "43fa55975e904008ae1b9270a5d85c0f", "failed", WARNING, WARNING)    \
	X(HELPER_VIOLATION, "helper-violation", "1509db27440d41da8eed4ae4f9f05b46", "failed", WARNING,       \
	  WARNING)                                                                                           \
	X(HELPER_STOPPED, "helper-stopped", "6ac949f8142e453e99e325f842563c67", NULL, INFO, INFO)
