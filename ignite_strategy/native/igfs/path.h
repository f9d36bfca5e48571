// igfs:// URIs and paths: parsing, normalising, and the rules for entry names.
#ifndef IGNITE_STRATEGY_NATIVE_IGFS_PATH_H_
#define IGNITE_STRATEGY_NATIVE_IGFS_PATH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ignite_strategy {
namespace igfs {

// The longest entry name, in bytes of UTF-8.
constexpr std::size_t kMaxNameBytes = 1024;

// The components below the root; empty for the root itself.
using Path = std::vector<std::string>;

// igfs://[FS@]host[:port]/path. What the URI does not say is empty and comes from the environment or the
// defaults.
struct Location {
  std::string file_system;
  std::string host;
  std::optional<std::uint16_t> port;
  Path path;

  // The URI with a normalised path: what error messages show and what TranslateName returns.
  std::string ToString() const;
};

// Throws Error(kInvalidArgument) that quotes the text: not an igfs URI, a malformed authority or name.
Location ParseLocation(std::string_view uri);

// "a//b/./c" and "a/b/c" are one path; ".." removes the component before it and stops at the root.
Path ParsePath(std::string_view text);

std::string FormatPath(const Path& path);

// Whether an entry may have this name: UTF-8 of at most kMaxNameBytes, not empty, not "." or "..", without
// '/' and NUL. Names read from a cache are checked by it as well: a foreign writer must not lead a copy out
// of its target folder.
bool ValidName(std::string_view name);

// A file system name is part of cache names: letters, digits, '_', '-' and '.', at most 64 of them.
bool ValidFileSystemName(std::string_view name);

}  // namespace igfs
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_IGFS_PATH_H_
