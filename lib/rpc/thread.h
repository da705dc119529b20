/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Threads for calls that may block, which an event loop must not make. */

#include <pthread.h>
#include <stddef.h>

/** All signals stay with the loop, which reads them from descriptors. Returns 0, or a negative errno.
 * @stack bytes; 0: as many as usual
 * @ret to detach or to join */
int thread_start(size_t stack, void *(*run)(void *userdata), void *userdata, pthread_t *ret);
