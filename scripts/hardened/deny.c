// Runs a program whose kernel refuses some system calls, as hardened containers do: with EPERM, by a seccomp filter.
//
//   deny CALL[:ARGUMENT=VALUE] .. -- PROGRAM [ARGUMENTS]
//
// A CALL with an argument is refused only where that argument (counted from 0) has the value. The library's calls do
// not go through libc, so a preloaded library would not see them.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
    const char *name;
    unsigned number;
} calls[] = {
    {"madvise", SYS_madvise},
    {"membarrier", SYS_membarrier},
    {"prctl", SYS_prctl},
    {"sched_getaffinity", SYS_sched_getaffinity},
    {"sched_setaffinity", SYS_sched_setaffinity},
};

static struct sock_filter filter[256];
static unsigned short length;

static void add(unsigned short code, unsigned value, unsigned char if_true, unsigned char if_false) {
    filter[length++] = (struct sock_filter){code, if_true, if_false, value};
}

static void refuse(const char *rule) {
    const char *colon = strchr(rule, ':');
    size_t name = colon ? (size_t)(colon - rule) : strlen(rule);
    for (size_t at = 0; at < sizeof calls / sizeof *calls; at++) {
        if (strlen(calls[at].name) != name || strncmp(calls[at].name, rule, name)) continue;
        unsigned argument = 0, value = 0;
        if (colon && sscanf(colon, ":%u=%u", &argument, &value) != 2) break;
        add(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
        add(BPF_JMP | BPF_JEQ | BPF_K, calls[at].number, 0, colon ? 3 : 1);
        if (colon) {
            // The lower half, which comes first on little-endian processors.
            add(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * argument, 0, 0);
            add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
        }
        add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
        return;
    }
    fprintf(stderr, "deny: %s is no rule\n", rule);
    exit(2);
}

int main(int count, char **arguments) {
    int at = 1;
    for (; at < count && strcmp(arguments[at], "--") && length < 240; at++) refuse(arguments[at]);
    if (at + 1 >= count) {
        fprintf(stderr, "deny CALL[:ARGUMENT=VALUE] .. -- PROGRAM [ARGUMENTS]\n");
        return 2;
    }
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    struct sock_fprog program = {length, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("deny: no filter");
        return 3;
    }
    execvp(arguments[at + 1], arguments + at + 1);
    perror(arguments[at + 1]);
    return 2;
}
