#include "native/igfs/target.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <utility>

#include "native/wire/environment.h"

namespace ignite_strategy {
namespace igfs {
namespace {

constexpr std::uint16_t kDefaultPort = 10800;
// A block must fit a frame with room to spare, and a file of small blocks pays a request for each.
constexpr std::int64_t kMinBlockSize = 4 * 1024;
constexpr std::int64_t kMaxBlockSize = 64 * 1024 * 1024;

struct DefaultCluster {
  std::vector<Endpoint> endpoints;
  SecuritySettings security;
};
std::mutex default_cluster_mutex;
DefaultCluster& Default() {
  static auto* cluster = new DefaultCluster();  // never destroyed: files may be closed at exit
  return *cluster;
}

std::int64_t Number(const char* variable, std::int64_t fallback, std::int64_t least, std::int64_t most) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return fallback;
  char* end = nullptr;
  const long long value = std::strtoll(text, &end, 10);
  if (*end != '\0' || value < least || value > most) {
    throw Error(Code::kInvalidArgument, std::string(variable) + "=" + text +
                                            " is not a whole number between " + std::to_string(least) +
                                            " and " + std::to_string(most));
  }
  return value;
}

Options ReadOptions() {
  constexpr std::int64_t kYear = 31'536'000;
  Options options;
  options.block_size =
      static_cast<std::uint32_t>(Number("IGFS_BLOCK_SIZE", options.block_size, kMinBlockSize, kMaxBlockSize));
  options.backups = static_cast<std::int32_t>(Number("IGFS_BACKUPS", options.backups, 0, 16));
  options.grace = Millis(1000 * Number("IGFS_GRACE_SECONDS", options.grace.count() / 1000, 0, kYear));
  options.writer_lease =
      Millis(1000 * Number("IGFS_WRITER_LEASE_SECONDS", options.writer_lease.count() / 1000, 1, kYear));
  return options;
}

}  // namespace

std::string Target::ToString() const {
  std::string text = file_system + "@";
  for (std::size_t i = 0; i < endpoints.size(); ++i) text += (i ? "," : "") + endpoints[i].ToString();
  return text;
}

void SetDefaultCluster(const std::string& addresses, const std::string& security) {
  std::vector<Endpoint> endpoints;
  for (std::size_t begin = 0; begin < addresses.size();) {
    const std::size_t end = std::min(addresses.find(',', begin), addresses.size());
    const Location location = ParseLocation("igfs://" + addresses.substr(begin, end - begin));
    if (location.host.empty() || !location.path.empty() || !location.file_system.empty()) {
      throw Error(Code::kInvalidArgument, "not a list of host:port addresses: '" + addresses + "'");
    }
    endpoints.push_back(Endpoint{location.host, location.port.value_or(kDefaultPort)});
    begin = end + 1;
  }
  DefaultCluster cluster{std::move(endpoints), SecuritySettings::Parse(security)};
  std::lock_guard<std::mutex> lock(default_cluster_mutex);
  Default() = std::move(cluster);
}

BackendKind ParseBackend(const std::string& text, const std::string& what) {
  if (text == "caches") return BackendKind::kCaches;
  if (text == "endpoint") return BackendKind::kEndpoint;
  throw Error(Code::kInvalidArgument,
              what + "=" + text +
                  " is neither \"caches\" (any Ignite >= 2.8, port 10800) nor \"endpoint\" (IGFS itself, in "
                  "Ignite <= 2.8.1, port 10500)");
}

Target ResolveTarget(const Location& location, const SecuritySettings* security,
                     std::optional<BackendKind> kind) {
  const FilesystemEnvironment environment = ReadFilesystemEnvironment();
  DefaultCluster defaults;
  {
    std::lock_guard<std::mutex> lock(default_cluster_mutex);
    defaults = Default();
  }
  Target target;
  target.options = ReadOptions();
  target.file_system =
      !location.file_system.empty() ? location.file_system : environment.name.value_or(kDefaultFileSystem);
  if (!ValidFileSystemName(target.file_system)) {
    throw Error(Code::kInvalidArgument,
                std::string(location.file_system.empty() ? "IGFS_FS_NAME=" : "") + "'" + target.file_system +
                    "': a file system name has 1 to 64 letters, digits, '_', '-' or '.'");
  }
  if (!kind && environment.backend) kind = ParseBackend(*environment.backend, "IGFS_BACKEND");
  const bool endpoint_asked = kind == BackendKind::kEndpoint;
  const std::uint16_t default_port = endpoint_asked ? kEndpointPort : kDefaultPort;
  const std::uint16_t port = location.port.value_or(environment.port.value_or(default_port));
  SecuritySettings settings;
  if (!location.host.empty()) {
    target.endpoints = {Endpoint{location.host, port}};
  } else if (environment.host || environment.port) {
    target.endpoints = {Endpoint{environment.host.value_or("localhost"), port}};
  } else {
    target.endpoints = defaults.endpoints;
    settings = defaults.security;
    if (endpoint_asked) {
      for (Endpoint& endpoint : target.endpoints) endpoint.port = kEndpointPort;
    }
  }
  if (target.endpoints.empty()) target.endpoints = {Endpoint{"localhost", port}};
  if (std::find(defaults.endpoints.begin(), defaults.endpoints.end(), target.endpoints.front()) !=
      defaults.endpoints.end()) {
    settings = defaults.security;
  }
  if (security != nullptr) settings = *security;
  target.kind = kind.value_or(target.endpoints.front().port == kEndpointPort ? BackendKind::kEndpoint
                                                                             : BackendKind::kCaches);
  const auto resolved = settings.Resolve(ReadSecurityEnvironment(kFilesystemPrefixes));
  if (resolved && target.kind == BackendKind::kEndpoint) {
    throw Error(
        Code::kInvalidArgument,
        target.endpoints.front().ToString() +
            ": TLS or a user is asked for (by argument, by the open resolver or by IGFS_TLS, "
            "IGFS_USERNAME and so on), and IGFS's own endpoint has neither: leave them out, or use the "
            "thin client's port (10800), which has both");
  }
  for (Endpoint& endpoint : target.endpoints) endpoint.security = resolved;
  return target;
}

}  // namespace igfs
}  // namespace ignite_strategy
