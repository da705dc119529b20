/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* CSI plugins as services: the number of calls in flight, and the log lines of calls: with plugin, call and
 * volume, without secrets and mount flags. csi_is_passing() decides whether a failed call is repeated. */

#include "csi/csi_method.h"

enum {
	CSI_CALLS_MAX = 16,   /* in flight per plugin; a plugin with a fixed pool must keep room for Probe */
	CSI_CALLS_KEPT = 1,   /* of those, only for calls of the service Identity, which pass the others */
	CSI_QUEUE_MAX = 1024, /* that wait */
	CSI_MESSAGE_MAX = 4 << 20,	   /* default of plugin_message_max: largest answer in bytes */
	CSI_REQUEST_MAX = 4 << 20,	   /* largest request in bytes: what gRPC servers take */
	CSI_QUEUE_BYTES_MAX = 16 << 20,	   /* of all requests that wait */
	CSI_TEXT_MAX = SERVICE_REASON_MAX, /* bytes of a plugin's message that are kept */
};

extern const struct service_kind csi_kind;
