#include "native/igfs/path.h"

#include <algorithm>
#include <utility>

#include "native/wire/error.h"

namespace ignite_strategy {
namespace igfs {
namespace {

constexpr std::string_view kScheme = "igfs://";

// Length of the UTF-8 sequence that starts at text[at], 0 if it is malformed (overlong, surrogate, beyond
// U+10FFFF).
std::size_t SequenceLength(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool overlong = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xF0 && byte(1) < 0x90);
  const bool outside = (lead == 0xED && byte(1) > 0x9F) || (lead == 0xF4 && byte(1) > 0x8F);
  return overlong || outside ? 0 : length;
}

bool ValidUtf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = SequenceLength(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

// For messages: short, and UTF-8 whatever the text is.
std::string Quote(std::string_view text) {
  std::string quoted(text.substr(0, 200));
  if (!ValidUtf8(quoted)) {
    std::replace_if(quoted.begin(), quoted.end(), [](char c) { return (c & 0x80) != 0; }, '?');
  }
  return "'" + quoted + "'";
}

[[noreturn]] void Refuse(std::string_view uri, const std::string& why) {
  throw Error(Code::kInvalidArgument,
              Quote(uri) + " is not of the form igfs://[FILE_SYSTEM@]host[:port]/path: " + why);
}

std::uint16_t ParsePort(std::string_view uri, std::string_view text) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (text.empty() || text.size() > 5 || !std::all_of(text.begin(), text.end(), digit)) {
    Refuse(uri, Quote(text) + " is not a port");
  }
  const unsigned long port = std::stoul(std::string(text));
  if (port == 0 || port > 65535) Refuse(uri, "a port is between 1 and 65535");
  return static_cast<std::uint16_t>(port);
}

void ParseAuthority(std::string_view uri, std::string_view authority, Location* location) {
  if (const std::size_t at = authority.rfind('@'); at != std::string_view::npos) {
    location->file_system = std::string(authority.substr(0, at));
    if (!ValidFileSystemName(location->file_system)) {
      Refuse(uri, "a file system name has 1 to 64 letters, digits, '_', '-' or '.'");
    }
    authority.remove_prefix(at + 1);
  }
  std::size_t end = authority.find(':');
  if (!authority.empty() && authority.front() == '[') {
    const std::size_t bracket = authority.find(']');
    if (bracket == std::string_view::npos) Refuse(uri, "the bracket of the IPv6 address is not closed");
    location->host = std::string(authority.substr(1, bracket - 1));
    end = bracket + 1;
    if (end < authority.size() && authority[end] != ':') Refuse(uri, "only ':port' may follow the bracket");
  } else {
    location->host = std::string(authority.substr(0, end));
    if (end != std::string_view::npos && authority.find(':', end + 1) != std::string_view::npos) {
      Refuse(uri, "write an IPv6 address in brackets: igfs://[::1]:10800/path");
    }
  }
  if (end != std::string_view::npos && end < authority.size()) {
    location->port = ParsePort(uri, authority.substr(end + 1));
    if (location->host.empty()) Refuse(uri, "a port needs a host before it");
  }
}

}  // namespace

std::string Location::ToString() const {
  std::string text(kScheme);
  if (!file_system.empty()) text += file_system + "@";
  text += host.find(':') == std::string::npos ? host : "[" + host + "]";
  if (port) text += ":" + std::to_string(*port);
  return text + FormatPath(path);
}

Location ParseLocation(std::string_view uri) {
  if (uri.substr(0, kScheme.size()) != kScheme) Refuse(uri, "it does not start with igfs://");
  const std::string_view rest = uri.substr(kScheme.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  Location location;
  ParseAuthority(uri, rest.substr(0, slash), &location);
  location.path = ParsePath(rest.substr(slash));
  return location;
}

Path ParsePath(std::string_view text) {
  Path path;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    const std::string_view name = text.substr(begin, end - begin);
    begin = end + 1;
    if (name.empty() || name == ".") continue;
    if (name == "..") {
      if (!path.empty()) path.pop_back();
      continue;
    }
    if (!ValidName(name)) {
      throw Error(Code::kInvalidArgument,
                  Quote(text) + " has a name that is not UTF-8, contains NUL or is longer than " +
                      std::to_string(kMaxNameBytes) + " bytes");
    }
    path.emplace_back(name);
  }
  return path;
}

std::string FormatPath(const Path& path) {
  std::string text;
  for (const std::string& name : path) text += "/" + name;
  return text.empty() ? "/" : text;
}

bool ValidName(std::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes || name == "." || name == "..") return false;
  return name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos &&
         ValidUtf8(name);
}

bool ValidFileSystemName(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), allowed);
}

}  // namespace igfs
}  // namespace ignite_strategy
