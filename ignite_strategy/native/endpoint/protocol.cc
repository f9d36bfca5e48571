#include "native/endpoint/protocol.h"

#include <cstring>
#include <utility>

namespace ignite_strategy {
namespace endpoint {
namespace {

// What becomes of the server's reasons outside: what it could not do for us is no statement about a file.
Code CodeOf(Refusal refusal) {
  switch (refusal) {
    case Refusal::kNotFound:
      return Code::kNotFound;
    case Refusal::kAlreadyExists:
      return Code::kAlreadyExists;
    case Refusal::kNotEmpty:
    case Refusal::kParentNotDirectory:
      return Code::kFailedPrecondition;
    case Refusal::kCorrupted:
      return Code::kDataLoss;
    default:
      return Code::kUnavailable;
  }
}

void Append(std::string* text, std::uint32_t unit) {
  if (unit != 0 && unit < 0x80) {
    text->push_back(static_cast<char>(unit));
  } else if (unit < 0x800) {
    text->push_back(static_cast<char>(0xC0 | unit >> 6));
    text->push_back(static_cast<char>(0x80 | (unit & 0x3F)));
  } else {
    text->push_back(static_cast<char>(0xE0 | unit >> 12));
    text->push_back(static_cast<char>(0x80 | (unit >> 6 & 0x3F)));
    text->push_back(static_cast<char>(0x80 | (unit & 0x3F)));
  }
}

bool IsHigh(std::uint32_t unit) { return unit >= 0xD800 && unit < 0xDC00; }
bool IsLow(std::uint32_t unit) { return unit >= 0xDC00 && unit < 0xE000; }

// The UTF-16 unit that starts at text[*at], which is moved behind it; nothing if it is malformed.
std::optional<std::uint32_t> NextUnit(std::string_view text, std::size_t* at) {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(text[*at + i]));
  };
  const std::uint32_t lead = byte(0);
  const std::size_t size = lead < 0x80 ? 1 : (lead & 0xE0) == 0xC0 ? 2 : (lead & 0xF0) == 0xE0 ? 3 : 0;
  if (size == 0 || size > text.size() - *at) return std::nullopt;
  std::uint32_t unit = size == 1 ? lead : size == 2 ? lead & 0x1F : lead & 0x0F;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return std::nullopt;
    unit = unit << 6 | (byte(i) & 0x3F);
  }
  *at += size;
  return unit;
}

}  // namespace

ServerError::ServerError(Refusal refusal, std::string reason, const std::string& message)
    : Error(CodeOf(refusal), message + ": " + reason), refusal_(refusal), reason_(std::move(reason)) {}

bool ServerError::IsLocked() const { return reason_.find("already opened for write") != std::string::npos; }

bool ServerError::MayPass() const { return reason_ == "Generic IGFS error occurred."; }

bool ServerError::IsConcurrent() const { return reason_.find("changed concurrently") != std::string::npos; }

std::string ToModifiedUtf8(std::string_view utf8) {
  std::string text;
  text.reserve(utf8.size());
  for (std::size_t at = 0; at < utf8.size();) {
    const auto byte = [&](std::size_t i) {
      return static_cast<std::uint32_t>(static_cast<unsigned char>(utf8[at + i]));
    };
    if ((byte(0) & 0xF8) == 0xF0 && at + 4 <= utf8.size()) {
      const std::uint32_t point =
          ((byte(0) & 7) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F)) - 0x10000;
      Append(&text, 0xD800 + (point >> 10 & 0x3FF));
      Append(&text, 0xDC00 + (point & 0x3FF));
      at += 4;
    } else if (byte(0) == 0) {
      Append(&text, 0);
      ++at;
    } else {
      text.push_back(utf8[at++]);  // the same in both
    }
  }
  return text;
}

std::optional<std::string> FromModifiedUtf8(std::string_view text, std::size_t* units) {
  std::string utf8;
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto unit = NextUnit(text, &at);
    if (!unit) return std::nullopt;
    ++count;
    if (*unit == 0) {
      utf8.push_back('\0');
      continue;
    }
    if (IsHigh(*unit) && at < text.size()) {
      std::size_t next = at;
      const auto low = NextUnit(text, &next);
      if (low && IsLow(*low)) {
        const std::uint32_t point = 0x10000 + ((*unit - 0xD800) << 10) + (*low - 0xDC00);
        utf8.push_back(static_cast<char>(0xF0 | point >> 18));
        utf8.push_back(static_cast<char>(0x80 | (point >> 12 & 0x3F)));
        utf8.push_back(static_cast<char>(0x80 | (point >> 6 & 0x3F)));
        utf8.push_back(static_cast<char>(0x80 | (point & 0x3F)));
        at = next;
        ++count;
        continue;
      }
    }
    Append(&utf8, *unit);
  }
  if (units != nullptr) *units = count;
  return utf8;
}

template <typename T>
void Request::Put(T value) {
  for (int shift = static_cast<int>(sizeof(T)) * 8 - 8; shift >= 0; shift -= 8) {
    bytes_.push_back(static_cast<std::uint8_t>(static_cast<std::uint64_t>(value) >> shift));
  }
}

Request& Request::PutBool(bool value) {
  bytes_.push_back(value ? 1 : 0);
  return *this;
}

Request& Request::PutInt(std::int32_t value) {
  Put(value);
  return *this;
}

Request& Request::PutLong(std::int64_t value) {
  Put(value);
  return *this;
}

void Request::PutText(std::string_view text) {
  const std::string encoded = ToModifiedUtf8(text);
  if (encoded.size() > kMaxStringBytes) {
    throw Error(Code::kInvalidArgument, "a path of " + std::to_string(encoded.size()) +
                                            " bytes: IGFS's endpoint takes at most " +
                                            std::to_string(kMaxStringBytes));
  }
  Put(static_cast<std::uint16_t>(encoded.size()));
  bytes_.insert(bytes_.end(), encoded.begin(), encoded.end());
}

Request& Request::PutString(const std::optional<std::string>& text) {
  PutBool(!text);
  if (text) PutText(*text);
  return *this;
}

Request& Request::PutPaths(const std::string& path, const std::string& to, bool flag,
                           const Properties* properties) {
  PutString(std::nullopt);  // the user: that of the server
  PutBool(true).PutString(path);
  PutBool(!to.empty());
  if (!to.empty()) PutString(to);
  PutBool(flag).PutBool(false);  // no colocation
  if (properties == nullptr) return PutInt(-1);
  PutInt(static_cast<std::int32_t>(properties->size()));
  for (const auto& [name, value] : *properties) {  // plain ASCII of our own: one unit a byte
    PutInt(static_cast<std::int32_t>(name.size())).PutText(name);
    PutInt(static_cast<std::int32_t>(value.size())).PutText(value);
  }
  return *this;
}

void PutHeader(std::uint8_t* header, std::int64_t request, Command command, std::int64_t stream,
               std::int32_t length) {
  const auto put = [&header](std::uint64_t value, int size) {
    for (int shift = size * 8 - 8; shift >= 0; shift -= 8)
      *header++ = static_cast<std::uint8_t>(value >> shift);
  };
  put(static_cast<std::uint64_t>(request), 8);
  put(static_cast<std::uint32_t>(command), 4);
  put(static_cast<std::uint64_t>(stream), 8);
  put(static_cast<std::uint32_t>(length), 4);
}

}  // namespace endpoint
}  // namespace ignite_strategy
