// Which cluster and which file system a URI means, and how that file system is kept there.
#ifndef IGNITE_STRATEGY_NATIVE_IGFS_TARGET_H_
#define IGNITE_STRATEGY_NATIVE_IGFS_TARGET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "native/igfs/path.h"
#include "native/wire/connection.h"

namespace ignite_strategy {
namespace igfs {

// The file system that `igfs:///` means, as in the original.
constexpr char kDefaultFileSystem[] = "default_fs";
// The port of IGFS's own protocol in Ignite <= 2.8.1.
constexpr std::uint16_t kEndpointPort = 10500;

// What keeps the files.
enum class BackendKind {
  kCaches,    // two caches, through the thin client's protocol
  kEndpoint,  // IGFS, through its own protocol
};
// "caches" or "endpoint". Throws Error(kInvalidArgument) naming `what`, the argument or variable.
BackendKind ParseBackend(const std::string& text, const std::string& what);

// IGFS_BLOCK_SIZE, IGFS_BACKUPS, IGFS_GRACE_SECONDS, IGFS_WRITER_LEASE_SECONDS.
struct Options {
  std::uint32_t block_size = 512 * 1024;  // of new files
  std::int32_t backups = 1;        // of caches created by this process; 1 costs nothing on a single node
  Millis grace{300'000};           // how long replaced content stays readable for those who have it open
  Millis writer_lease{3'600'000};  // a writer with blocks in the cluster and silent for longer counts as dead
};

struct Target {
  std::vector<Endpoint> endpoints;  // tried in this order, never empty
  std::string file_system;
  BackendKind kind = BackendKind::kCaches;
  Options options;

  // FS@host:port,host:port: identifies the file system within the process and names it in messages.
  std::string ToString() const;
  // Whether two URIs mean the same tree.
  bool SameTree(const Target& other) const {
    return kind == other.kind && endpoints == other.endpoints && file_system == other.file_system;
  }
};

// The addresses of the innermost open resolver ("" = none) and how it speaks to them
// (SecuritySettings::Serialize), used for URIs and an environment that name no host, or one of them. Throws
// Error(kInvalidArgument) for anything but a comma-separated list of host:port.
void SetDefaultCluster(const std::string& addresses, const std::string& security);

// What the URI says, else IGFS_HOST, IGFS_PORT and IGFS_FS_NAME, else the default endpoints, else
// localhost:10800; TLS, user and password: `security` if given, else those of the default endpoints, with the
// variables IGFS_TLS and so on (see kFilesystemPrefixes) before both. The backend: `kind` if given, else
// IGFS_BACKEND, else that of IGFS's own endpoint for its port 10500 and caches for every other. With the
// endpoint asked for, its port is the default one, also on the hosts of the default endpoints. Throws
// Error(kInvalidArgument) for TLS or a user with the endpoint, whose protocol has neither.
Target ResolveTarget(const Location& location, const SecuritySettings* security = nullptr,
                     std::optional<BackendKind> kind = std::nullopt);

}  // namespace igfs
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_IGFS_TARGET_H_
