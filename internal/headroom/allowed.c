/* allowed.c: how many threads, and how much address space, the system still allows.
 *
 * internal/threads/cgroup.go reads the same trees for CPUs; this code runs before Go does.
 */
#include "headroom.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Reads the first bytes of a small file below a root as text; false if it cannot be read. */
static bool read_text(const char *root, const char *name, char *text, size_t capacity) {
  char path[2 * PATH_MAX];
  snprintf(path, sizeof path, "%s%s", root, name);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  ssize_t length = read(file, text, capacity - 1);
  close(file);
  if (length < 0) return false;
  text[length] = '\0';
  return true;
}

/* Reads a file with one number; INT64_MAX if it says "max". */
static bool read_number(const char *root, const char *name, int64_t *number) {
  char text[64];
  if (!read_text(root, name, text, sizeof text)) return false;
  if (strncmp(text, "max", 3) == 0) {
    *number = INT64_MAX;
    return true;
  }
  return sscanf(text, "%" SCNd64, number) == 1;
}

/* Notes a limit that leaves less room than those before. */
__attribute__((format(printf, 4, 5))) static void note(hrh_allowed *allowed, int64_t most,
                                                       int64_t now, const char *format, ...) {
  if (now < 0) now = 0; /* no kernel reports that */
  int64_t room = most > now ? most - now : 0;
  if (most == INT64_MAX || room >= allowed->threads) return;
  allowed->threads = room;
  va_list values;
  va_start(values, format);
  vsnprintf(allowed->by, sizeof allowed->by, format, values);
  va_end(values);
}

/* ---- cgroups ---- */

/* Looks at a group and at all groups above it, up to where the hierarchy is mounted. The true root
 * has no pids.max. If the highest visible group has one, a container's own tree is mounted, and
 * another limit, such as a pod's, may be above it. */
static void look_up(hrh_allowed *allowed, const char *root, const char *mount, const char *group) {
  char directory[PATH_MAX - 16], path[PATH_MAX];
  size_t top = strlen(mount);
  bool limited = false;
  if (snprintf(directory, sizeof directory, "%s%s", mount, group) >= (int)sizeof directory) return;
  for (;;) {
    int64_t most, now;
    snprintf(path, sizeof path, "%s/pids.max", directory);
    limited = read_number(root, path, &most);
    snprintf(path, sizeof path, "%s/pids.current", directory);
    if (limited && read_number(root, path, &now)) {
      note(allowed, most, now, "pids.max of %.300s is %" PRId64 ", and %" PRId64 " run there",
           directory, most, now);
    }
    char *last = strrchr(directory + top, '/');
    if (last == NULL) break;
    *last = '\0';
  }
  allowed->hidden |= limited;
}

/* Whether a list of words that commas separate has a word. */
static bool has_word(const char *list, const char *word) {
  size_t length = strlen(word);
  for (const char *at = list; (at = strstr(at, word)) != NULL; at += length) {
    char behind = at[length];
    if ((at == list || at[-1] == ',') && (behind == '\0' || behind == ',')) return true;
  }
  return false;
}

/* Replaces mountinfo's octal escapes, such as that of a space, in place. */
static void unescape(char *text) {
  char *to = text;
  for (const char *from = text; *from != '\0'; to++) {
    unsigned byte;
    if (*from == '\\' && sscanf(from + 1, "%3o", &byte) == 1) {
      *to = (char)byte;
      from += 4;
    } else {
      *to = *from++;
    }
  }
  *to = '\0';
}

/* Splits a line of mountinfo (proc_pid_mountinfo(5)): id parent major:minor root point options
 * [tags...] - type source super-options. Returns true for a mount of the hierarchy that is asked
 * for. */
static bool is_mount(char *line, bool v2, char **base, char **point) {
  char *behind = strstr(line, " - ");
  char *words[5], *rest = line, *more;
  if (behind == NULL) return false;
  *behind = '\0';
  behind += 3;
  for (int i = 0; i < 5; i++) {
    if ((words[i] = strtok_r(rest, " ", &more)) == NULL) return false;
    rest = NULL;
  }
  const char *type = strtok_r(behind, " ", &more);
  if (type == NULL || strcmp(type, v2 ? "cgroup2" : "cgroup") != 0) return false;
  strtok_r(NULL, " ", &more);
  const char *options = strtok_r(NULL, " \n", &more);
  if (!v2 && (options == NULL || !has_word(options, "pids"))) return false;
  *base = words[3];
  *point = words[4];
  unescape(*base);
  unescape(*point);
  return true;
}

/* Finds where a hierarchy is mounted, and which part of it: the mount shows the tree from its root
 * down. A group outside that part is not visible, but the mount itself is. */
static void look_in_hierarchy(hrh_allowed *allowed, const char *root, bool v2, const char *group) {
  char path[PATH_MAX], *line = NULL, *base, *point;
  snprintf(path, sizeof path, "%s/proc/self/mountinfo", root);
  FILE *mounts = fopen(path, "re");
  size_t capacity = 0;
  bool found = false;
  while (mounts != NULL && !found && getline(&line, &capacity, mounts) > 0) {
    if (!is_mount(line, v2, &base, &point)) continue;
    found = true;
    size_t length = strcmp(base, "/") == 0 ? 0 : strlen(base);
    const char *below = group + length;
    bool inside = strncmp(group, base, length) == 0 && strncmp(group, "/..", 3) != 0 &&
                  (*below == '\0' || *below == '/');
    look_up(allowed, root, point, inside && strcmp(below, "/") != 0 ? below : "");
  }
  free(line);
  if (mounts != NULL) fclose(mounts);
  allowed->hidden |= !found;
}

/* Both hierarchies may exist: lines of cgroups(7) are id:controllers:path, and version 2 is the one
 * without controllers. */
static void look_at_cgroups(hrh_allowed *allowed, const char *root) {
  char text[16384], *more;
  if (!read_text(root, "/proc/self/cgroup", text, sizeof text))
    return; /* this kernel has no cgroups */
  for (char *line = strtok_r(text, "\n", &more); line; line = strtok_r(NULL, "\n", &more)) {
    char *controllers = strchr(line, ':');
    char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL) continue;
    *controllers++ = '\0';
    *group++ = '\0';
    bool v2 = strcmp(line, "0") == 0 && *controllers == '\0';
    if (v2 || has_word(controllers, "pids")) look_in_hierarchy(allowed, root, v2, group);
  }
}

/* ---- the user, and the machine ---- */

/* RLIMIT_NPROC does not bind processes that may exceed it (kernel/fork.c, copy_process). */
static bool is_exempt(void) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[2] = {0};
  if (getuid() == 0) return true;
  if (syscall(SYS_capget, &header, data) != 0) return false;
  return (data[0].effective & (CAP_TO_MASK(CAP_SYS_RESOURCE) | CAP_TO_MASK(CAP_SYS_ADMIN))) != 0;
}

/* The visible threads of this user. The kernel also counts those in other containers. */
static int64_t threads_of_user(void) {
  DIR *processes = opendir("/proc");
  int64_t sum = 0;
  for (struct dirent *entry; processes != NULL && (entry = readdir(processes)) != NULL;) {
    char path[300], text[4096];
    if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
    snprintf(path, sizeof path, "/proc/%s/status", entry->d_name);
    if (!read_text("", path, text, sizeof text)) continue; /* it has ended meanwhile */
    const char *owner = strstr(text, "\nUid:"), *threads = strstr(text, "\nThreads:");
    if (owner != NULL && threads != NULL && strtoul(owner + 5, NULL, 10) == getuid()) {
      sum += strtol(threads + 9, NULL, 10);
    }
  }
  if (processes != NULL) closedir(processes);
  return sum;
}

/* All threads of the machine, from the fourth word of loadavg: running/all. 0 if unknown. */
static int64_t threads_of_machine(const char *root) {
  char text[128];
  int64_t all;
  if (!read_text(root, "/proc/loadavg", text, sizeof text)) return 0;
  return sscanf(text, "%*s %*s %*s %*d/%" SCNd64, &all) == 1 ? all : 0;
}

/* So far from a limit, counting a user's threads cannot matter; it takes 20 us for each process. */
#define FAR_AWAY 4096

hrh_allowed hrh_allowed_threads(const char *root) {
  hrh_allowed allowed = {.threads = INT64_MAX};
  look_at_cgroups(&allowed, root);
  int64_t all = threads_of_machine(root), most;
  const char *of_machine[] = {"/proc/sys/kernel/threads-max", "/proc/sys/kernel/pid_max"};
  for (int i = 0; i < 2; i++) {
    if (!read_number(root, of_machine[i], &most)) continue;
    note(&allowed, most, all, "%s is %" PRId64 ", and %" PRId64 " threads run", of_machine[i], most,
         all);
  }
  struct rlimit limit;
  if (getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && !is_exempt()) {
    most = (int64_t)limit.rlim_cur;
    int64_t own = most > INT64_MAX - FAR_AWAY || most - FAR_AWAY > all ? all : threads_of_user();
    note(&allowed, most, own, "RLIMIT_NPROC is %" PRId64 ", and user %u has %" PRId64 " threads",
         most, getuid(), own);
  }
  return allowed;
}

/* ---- address space ---- */

int64_t hrh_allowed_space(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return INT64_MAX;
  char text[128];
  int64_t pages = 0;
  if (read_text("", "/proc/self/statm", text, sizeof text)) sscanf(text, "%" SCNd64, &pages);
  int64_t left = (int64_t)limit.rlim_cur - pages * sysconf(_SC_PAGESIZE);
  return left > 0 ? left : 0;
}
