/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What plugins do on the wire, one row each, and what the caller sees of it. */

#include "csi_world.h"

enum { QUIRK_STEPS_MAX = 10, QUIRK_OPENING_MAX = 4 };

/* Beginnings of errors: the plugin's word, and ours about its answer. The socket's path reads SOCKET. */
#define WHO "plugin nfs, volume vol-1: "
#define SAID WHO "NodeStageVolume answered "
#define OURS WHO "csi.v1.Node/NodeStageVolume at unix:SOCKET: "

/* What the connection is like after the row. */
enum after {
	KEPT,	/* the next call goes over the same connection */
	REMADE, /* over another one */
	STUCK,	/* on none, until the plugin ends it */
};

struct quirk {
	const char *name;
	struct step opening[QUIRK_OPENING_MAX]; /* instead of empty SETTINGS */
	struct step steps[QUIRK_STEPS_MAX];
	enum csi_method method; /* 0: NodeStageVolume */
	uint64_t timeout_us;	/* 0: the method's */
	enum status status;
	const char *text; /* of the answer, or of the error; from a * at its end on it is nghttp2's */
	enum after after;
	size_t n_ping_acks;
	bool grants;	     /* the plugin lets a stream send one byte more for each that came */
	uint32_t reset_code; /* of RST_STREAM by the client; 0: none came */
};

extern const struct quirk quirks[];
extern const size_t n_quirks;
