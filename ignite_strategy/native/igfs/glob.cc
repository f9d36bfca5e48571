#include "native/igfs/glob.h"

#include <fnmatch.h>

#include <optional>
#include <string>
#include <utility>

namespace ignite_strategy {
namespace igfs {
namespace {

Path Below(const Path& directory, const std::string& name) {
  Path path = directory;
  path.push_back(name);
  return path;
}

bool IsLiteral(const std::string& name) { return name.find_first_of("*?[\\") == std::string::npos; }

// What `look` returns, or nothing if there is no such file or directory.
template <typename Look>
auto IfThere(Look look) -> std::optional<decltype(look())> {
  try {
    return look();
  } catch (const Error& error) {
    if (!MeansNotThere(error)) throw;
    return std::nullopt;
  }
}

}  // namespace

std::vector<Path> Glob(Backend& backend, const Path& pattern, const Wait& wait) {
  std::vector<Path> found{Path()};
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    std::vector<Path> next;
    const bool literal = IsLiteral(pattern[i]);
    for (const Path& directory : found) {
      if (literal) {
        next.push_back(Below(directory, pattern[i]));
        continue;
      }
      const auto children = IfThere([&] { return backend.List(directory, wait); });
      if (!children) continue;
      for (const auto& [name, status] : *children) {
        const bool leads_on = status.is_directory || i + 1 == pattern.size();
        if (leads_on && fnmatch(pattern[i].c_str(), name.c_str(), 0) == 0) {
          next.push_back(Below(directory, name));
        }
      }
    }
    found = std::move(next);
  }
  if (!pattern.empty() && !IsLiteral(pattern.back())) return found;  // each seen in its directory
  std::vector<Path> there;
  for (Path& path : found) {
    if (IfThere([&] { return backend.GetStatus(path, wait); })) there.push_back(std::move(path));
  }
  return there;
}

}  // namespace igfs
}  // namespace ignite_strategy
