/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The request that makes a container, as podman's own API takes it. A container of the Docker API has its
 * working folder made by podman at each start, and given to the task's user, by a path that follows links of
 * the image (GHSA-q6r4-3wmg-fwcq); one of podman's own API has not. Pure. */

#include <jansson.h>

/** Translates the body of POST /containers/create into that of POST /libpod/containers/create, with what
 * podman itself adds to the former. Owned by the caller; NULL when memory is short, or for a member or a
 * value that it does not know: nothing is left out.
 *
 * @name     of the container
 * @work_dir of the image, for a body without one; NULL or "": the root. Without any, podman makes the folder
 */
json_t *podman_spec_of(const json_t *body, const char *name, const char *work_dir);
