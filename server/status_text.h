/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The line that the service manager shows of the server. */

#include "log/service.h"

/** @userdata struct server */
service_text_fn server_status_text;
