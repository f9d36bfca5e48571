// The environment variables that replace a dataset's arguments and give igfs its defaults, read in one place.
//
// Python uses the same parser through _core.dataset_environment() and _core.filesystem_environment().
#ifndef IGNITE_STRATEGY_NATIVE_WIRE_ENVIRONMENT_H_
#define IGNITE_STRATEGY_NATIVE_WIRE_ENVIRONMENT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ignite_strategy {

// A sorted list of distinct partitions.
using Partitions = std::vector<std::int32_t>;

// "3", "0-7,9" or "[0, 1, 2]" (also with ranges as strings). Throws Error(kInvalidArgument) naming `name`.
Partitions ParsePartitions(const std::string& text, const std::string& name);
// The shortest text that ParsePartitions reads back: "0-7,9".
std::string FormatPartitions(const Partitions& partitions);

// IGNITE_DATASET_CACHE_NAME, _HOST, _PORT, _LOCAL, _PART, _PAGE_SIZE and IGNITE_STRATEGY_PARTITIONS. Unset =
// nothing. TLS, user and password: ReadSecurityEnvironment in security.h.
struct DatasetEnvironment {
  std::optional<std::string> cache_name;
  std::optional<std::string> host;
  std::optional<std::uint16_t> port;
  std::optional<bool> local;
  std::optional<Partitions> part;  // nothing also for -1: all partitions
  std::optional<std::int32_t> page_size;
  // IGNITE_STRATEGY_PARTITIONS: JSON object of cache name -> partitions, or @FILE. A cache not named is read
  // whole.
  std::optional<std::map<std::string, Partitions>> assignment;
};
DatasetEnvironment ReadDatasetEnvironment();

// IGFS_HOST, IGFS_PORT, IGFS_FS_NAME, IGFS_BACKEND.
struct FilesystemEnvironment {
  std::optional<std::string> host;
  std::optional<std::uint16_t> port;
  std::optional<std::string> name;
  std::optional<std::string> backend;
};
FilesystemEnvironment ReadFilesystemEnvironment();

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_WIRE_ENVIRONMENT_H_
