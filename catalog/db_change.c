/* db_change.c - opening a catalog to change it, its schema, and making a new file of one.
 *
 * A new catalog is made in memory and written at the end to a file without a name, which then gets
 * its name in one step: a kill leaves nothing behind, nobody sees half of it, and of two who make
 * the same file the second is told. Where the file system knows no files without names, one with a
 * name of its own is used, and a kill may leave that.
 */
#include "db_inside.h"
#include "versions.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Found from the project's root, where everything is compiled. */
#define DB_TEXT(name, file)                                                                        \
    __asm__(".section .rodata\n"                                                                   \
            ".global " #name "\n"                                                                  \
            ".hidden " #name "\n" #name ":\n"                                                      \
            ".incbin \"" file "\"\n"                                                               \
            ".byte 0\n"                                                                            \
            ".previous\n");                                                                        \
    extern const char name[]
DB_TEXT(catalog_db_schema, "catalog/schema.sql");
DB_TEXT(catalog_db_002, "catalog/migrations/002.sql");
DB_TEXT(catalog_db_003, "catalog/migrations/003.sql");

/* From schema i + 1 to i + 2. */
static const char *const migrations[DB_SCHEMA_VERSION - 1] = {catalog_db_002, catalog_db_003};

static bool execute(struct db *db, const char *sql, struct catalog_error *err)
{
    int rc = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK || db_fail_sql(db, rc & 0xff, err);
}

/* Whether the file is new, *schema 0, or of which schema; anything that is neither new nor a
 * catalog of ours is refused and left alone. */
static bool look_into(struct db *db, int64_t *schema, struct catalog_error *err)
{
    int64_t n_tables, version;
    if (!db_read_int(db, SQL_N_TABLES, &n_tables, err) ||
        !db_read_int(db, SQL_USER_VERSION, &version, err)) {
        return false;
    }
    *schema = 0;
    return (n_tables == 0 && version == 0) || db_check_schema(db, schema, err);
}

/* Inside of the transaction, so that a kill leaves one schema or the other. */
static bool bring_up(struct db *db, int64_t schema, struct catalog_error *err)
{
    if (schema == 0) {
        return execute(db, catalog_db_schema, err);
    }
    for (; schema < DB_SCHEMA_VERSION; schema++) {
        if (!execute(db, migrations[schema - 1], err)) {
            return false;
        }
    }
    return true;
}

/* The journal's mode can only be set outside of a transaction: after a first look, so that a file
 * of another kind is not touched; the second look is under the lock. */
static bool open_to_write(struct db *db, int flags, struct catalog_error *err)
{
    int64_t schema;
    if (!db_open_handle(db, db->is_unpublished ? ":memory:" : db->path, flags, err) ||
        !look_into(db, &schema, err)) {
        return false;
    }
    db->is_quick = true; /* once is enough */
    return (db->is_unpublished || execute(db, "PRAGMA journal_mode = WAL", err)) &&
           db_run(db, db_use(db, SQL_BEGIN_WRITE, err), err) && look_into(db, &schema, err) &&
           bring_up(db, schema, err);
}

/* Whether the file is yet to be made; what is no file is not opened: SQLite would put a journal
 * beside a device and write to it. */
static bool look_at_place(const char *path, bool is_new_allowed, bool *is_missing,
                          struct catalog_error *err)
{
    struct stat st;
    bool is_seen = stat(path, &st) == 0;
    *is_missing = !is_seen && errno == ENOENT;
    if (!*is_missing) { /* one that cannot be looked at is told when it is opened */
        return !is_seen || S_ISREG(st.st_mode) ||
               catalog_fail(err, CATALOG_IO, "catalog '%s' is not a file", path);
    }
    if (!is_new_allowed) {
        return catalog_fail(err, CATALOG_IO,
                            "catalog '%s' is not there: make it with 'isothermctl catalog build' "
                            "or 'catalog upgrade'",
                            path);
    }
    return true;
}

static bool begin_change(struct db **out, const char *path, bool is_new_allowed, bool is_quick,
                         struct catalog_error *err)
{
    struct db *db;
    bool is_missing;
    if (!look_at_place(path, is_new_allowed, &is_missing, err) || !db_new(&db, path, err)) {
        return false;
    }
    db->is_unpublished = is_missing;
    db->is_quick = is_quick;
    if (!open_to_write(db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, err)) {
        db_close(db);
        return false;
    }
    *out = db;
    return true;
}

bool db_create(struct db **out, const char *path, struct catalog_error *err)
{
    return begin_change(out, path, true, false, err);
}

bool db_change(struct db **out, const char *path, struct catalog_error *err)
{
    return begin_change(out, path, false, false, err);
}

bool db_change_quick(struct db **out, const char *path, struct catalog_error *err)
{
    return begin_change(out, path, false, true, err);
}

bool catalog_migrate(const char *path, struct catalog_error *err)
{
    struct db *db;
    if (!db_change(&db, path, err)) {
        return false;
    }
    bool ok = db_commit(db, err);
    db_close(db);
    return ok;
}

/* ---- a new file */

static bool fail_file(const char *path, int code, struct catalog_error *err)
{
    bool is_dangling = code == EEXIST && access(path, F_OK) != 0;
    const char *what = is_dangling                        ? "is a link to nothing: remove it"
                       : code == EEXIST                   ? "was made meanwhile: try again"
                       : code == ENOENT                   ? "cannot be made: make its folder first"
                       : code == EACCES || code == EPERM  ? "may not be made there by this user"
                       : code == EROFS                    ? "cannot be made there: read-only"
                       : code == ENOSPC || code == EDQUOT ? "has no room on its disk: make some"
                                                          : strerror(code);
    return catalog_fail(err, CATALOG_IO, "catalog '%s' %s", path, what);
}

static void folder_of(const char *path, char out[DB_PATH_MAX])
{
    (void)snprintf(out, DB_PATH_MAX, "%s", path);
    char *slash = strrchr(out, '/');
    if (!slash) {
        (void)snprintf(out, DB_PATH_MAX, ".");
        return;
    }
    slash[slash == out] = '\0';
}

/* A file that has no name yet; `name` is what to link it from, and is removed then where is_named.
 */
static int open_nameless(const char *path, char name[DB_PATH_MAX + 32], bool *is_named)
{
    char folder[DB_PATH_MAX];
    folder_of(path, folder);
    int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644);
    *is_named = fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL);
    if (*is_named) {
        (void)snprintf(name, DB_PATH_MAX + 32, "%s.new-%ld", path, (long)getpid());
        fd = open(name, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    } else {
        (void)snprintf(name, DB_PATH_MAX + 32, "/proc/self/fd/%d", fd);
    }
    return fd;
}

static bool write_whole(int fd, const unsigned char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
    }
    return fsync(fd) == 0;
}

/* The name lasts when the folder has it on disk. */
static bool sync_folder(const char *path)
{
    char folder[DB_PATH_MAX];
    folder_of(path, folder);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return errno == EACCES; /* a folder that may be written and not read */
    }
    bool ok = fsync(fd) == 0 || errno == EINVAL; /* a file system that cannot */
    (void)close(fd);
    return ok;
}

static bool publish(const char *path, const unsigned char *data, size_t len,
                    struct catalog_error *err)
{
    char name[DB_PATH_MAX + 32];
    bool is_named;
    int fd = open_nameless(path, name, &is_named);
    if (fd < 0) {
        return fail_file(path, errno, err);
    }
    bool ok = write_whole(fd, data, len) &&
              linkat(AT_FDCWD, name, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0 && sync_folder(path);
    int code = errno;
    if (is_named) {
        (void)unlink(name);
    }
    (void)close(fd); /* synced already */
    return ok || fail_file(path, code, err);
}

/* Bytes 18 and 19 of the header say that the file is used with a write-ahead log: a reader that is
 * there first need not wait for a writer to say so. */
bool db_copy(struct db *db, const char *path, struct catalog_error *err)
{
    sqlite3_int64 len = 0;
    unsigned char *data = sqlite3_serialize(db->handle, "main", &len, 0);
    if (!data || len < 100) {
        sqlite3_free(data);
        return catalog_fail(err, CATALOG_NOMEM, "out of memory");
    }
    data[18] = data[19] = 2;
    bool ok = publish(path, data, (size_t)len, err);
    sqlite3_free(data);
    return ok;
}

bool db_commit(struct db *db, struct catalog_error *err)
{
    if (!db_run(db, db_use(db, SQL_COMMIT, err), err)) {
        return false;
    }
    if (db->is_unpublished) {
        return db_copy(db, db->path, err);
    }
    /* One file again where no reader holds the log; a reader that does is no fault. */
    (void)sqlite3_wal_checkpoint_v2(db->handle, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    return true;
}
