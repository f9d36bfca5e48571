#include "native/igfs/endpoint_names.h"

#include <cstdint>
#include <utility>

#include "native/wire/crypto.h"
#include "native/wire/error.h"

namespace ignite_strategy {
namespace igfs {
namespace {

constexpr std::string_view kUnpublished = ".igs-new-";
constexpr std::string_view kReplaced = ".igs-old-";

bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

// A drive letter is one UTF-16 unit and a colon.
bool HasDrive(std::string_view name) {
  const auto lead = static_cast<unsigned char>(name.front());
  const std::size_t first = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 0;
  return first != 0 && name.size() > first && name[first] == ':';
}

}  // namespace

void CheckEndpointPath(const Path& path) {
  for (const std::string& name : path) {
    const bool misread =
        name.find('\\') != std::string::npos || name.front() == '~' || name.front() == ':' || HasDrive(name);
    if (misread) {
      throw Error(Code::kInvalidArgument,
                  FormatPath(path) + ": IGFS cannot keep the name '" + name +
                      "': none may contain '\\', begin with '~' or ':', or have ':' as its second character");
    }
    if (IsUnpublished(name) || IsReplaced(name)) {
      throw Error(Code::kInvalidArgument, FormatPath(path) + ": names that begin with " +
                                              std::string(kUnpublished) + " and " + std::string(kReplaced) +
                                              " are used for files that are being written");
    }
  }
}

std::string NewUnpublishedName() {
  std::uint8_t bytes[16];
  RandomBytes(bytes, sizeof bytes);
  std::string name(kUnpublished);
  for (const std::uint8_t byte : bytes) {
    name.push_back("0123456789abcdef"[byte >> 4]);
    name.push_back("0123456789abcdef"[byte & 15]);
  }
  return name;
}

bool IsUnpublished(std::string_view name) { return StartsWith(name, kUnpublished); }

std::string ReplacedName(std::string_view name) { return std::string(kReplaced) + std::string(name); }
bool IsReplaced(std::string_view name) {
  return StartsWith(name, kReplaced) && name.size() > kReplaced.size();
}
std::string_view NameOfReplaced(std::string_view name) { return name.substr(kReplaced.size()); }

Path Sibling(const Path& path, std::string name) {
  Path sibling = path;
  sibling.back() = std::move(name);
  return sibling;
}

}  // namespace igfs
}  // namespace ignite_strategy
