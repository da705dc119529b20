/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of jemalloc, which is linked into the program, see CMakeLists.txt. */

/* jemalloc looks for this name and type. MALLOC_CONF and /etc/malloc.conf still override it.
 * narenas: the threads seldom want memory at the same time, and each arena keeps some freed memory.
 * thp: in huge pages, where the kernel gives them on request; else the state grows by a page fault for
 * nearly each claim. An idle server takes 5 MB more. */
extern const char *malloc_conf;
const char *malloc_conf = "narenas:1,thp:always";
