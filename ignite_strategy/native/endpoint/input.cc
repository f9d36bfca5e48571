#include "native/endpoint/input.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ignite_strategy {
namespace endpoint {
namespace {

// As nanoseconds it is within 64 bits: the year 2262.
constexpr std::int64_t kLastMillis = 9'223'372'036'854;
constexpr std::size_t kBufferSize = 64 * 1024;
static_assert(kMaxStringBytes <= kBufferSize, "a string fits the buffer");
// Far beyond real ones: a server that sends more is broken, or not one.
constexpr std::int32_t kMostProperties = 4096;
constexpr std::int32_t kMostCharacters = 1 << 20;
constexpr std::int32_t kMostEntries = 5'000'000;
constexpr const char* kReceiving = "waiting for the answer of IGFS";

}  // namespace

Input::Input(Socket& socket, std::string where)
    : socket_(socket), where_(std::move(where)), buffer_(kBufferSize) {}

void Input::Damaged(const std::string& what) const {
  throw Error(Code::kDataLoss, where_ + ": not an answer of IGFS: " + what);
}

// `size` is at most the buffer's.
const std::uint8_t* Input::Take(std::size_t size, const Wait& wait) {
  if (end_ - begin_ < size) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    while (end_ < size) {
      const std::size_t got = socket_.TryRead(buffer_.data() + end_, buffer_.size() - end_, kReceiving);
      end_ += got;
      if (got == 0) socket_.AwaitReadable(wait, kReceiving);
    }
  }
  const std::uint8_t* at = buffer_.data() + begin_;
  begin_ += size;
  return at;
}

bool Input::Poll() {
  if (empty()) {
    begin_ = 0;
    end_ = socket_.TryRead(buffer_.data(), buffer_.size(), kReceiving);
  }
  return !empty();
}

std::size_t Input::GetSize(std::int32_t most, const char* what, const Wait& wait) {
  const auto size = Get<std::int32_t>(wait);
  if (size < 0 || size > most) Damaged(std::to_string(size) + " " + what);
  return static_cast<std::size_t>(size);
}

std::uint64_t Input::GetLength(const Wait& wait) {
  const auto length = Get<std::int64_t>(wait);
  if (length < 0) Damaged("a file of " + std::to_string(length) + " bytes");
  return static_cast<std::uint64_t>(length);
}

std::string Input::GetText(const Wait& wait, std::size_t* units) {
  const std::size_t size = Get<std::uint16_t>(wait);
  const auto text = FromModifiedUtf8({reinterpret_cast<const char*>(Take(size, wait)), size}, units);
  if (!text) Damaged("a text that is not UTF-8");
  return *text;
}

std::optional<std::string> Input::GetString(const Wait& wait) {
  if (GetBool(wait)) return std::nullopt;
  return GetText(wait);
}

// Its length in UTF-16 units, and as many pieces as that takes; empty for null.
std::string Input::GetLongString(const Wait& wait) {
  const auto length = Get<std::int32_t>(wait);
  if (length == -1) return "";
  if (length < 0 || length > kMostCharacters) Damaged("a text of " + std::to_string(length) + " characters");
  std::string text;
  for (std::size_t have = 0;;) {
    std::size_t units = 0;
    text += GetText(wait, &units);
    have += units;
    if (have == static_cast<std::size_t>(length)) return text;
    if (units == 0 || have > static_cast<std::size_t>(length)) {
      Damaged("a text of another length than announced");
    }
  }
}

FileInfo Input::GetFile(const Wait& wait) {
  FileInfo info;
  info.path = GetString(wait).value_or("");
  Get<std::int32_t>(wait);  // the size of a block
  Get<std::int64_t>(wait);  // and of a group of them
  info.length = GetLength(wait);
  const auto count = Get<std::int32_t>(wait);
  if (count < -1 || count > kMostProperties) Damaged("a file with " + std::to_string(count) + " properties");
  for (std::int32_t i = 0; i < count; ++i) {
    std::string name = GetLongString(wait);
    info.properties[std::move(name)] = GetLongString(wait);
  }
  Get<std::int64_t>(wait);  // the time of the last access
  info.mtime = Get<std::int64_t>(wait);
  if (info.mtime < -kLastMillis || info.mtime > kLastMillis)
    Damaged("a file that was changed " + std::to_string(info.mtime) + " ms after 1970");
  info.is_directory = (Get<std::uint8_t>(wait) & 1) != 0;
  return info;
}

std::vector<FileInfo> Input::GetFiles(const Wait& wait) {
  const std::size_t count = GetSize(kMostEntries, "entries of a directory", wait);
  std::vector<FileInfo> files;  // grows with what arrives, not with what is announced
  while (files.size() < count) files.push_back(GetFile(wait));
  return files;
}

Stream Input::GetStream(const Wait& wait) {
  Stream stream;
  stream.id = Get<std::int64_t>(wait);
  stream.length = GetLength(wait);
  return stream;
}

void Input::GetBytes(char* out, std::size_t size, const Wait& wait) {
  const std::size_t buffered = std::min(size, end_ - begin_);
  std::memcpy(out, buffer_.data() + begin_, buffered);
  begin_ += buffered;
  for (std::size_t have = buffered; have < size;) {
    const std::size_t got = socket_.TryRead(out + have, size - have, kReceiving);
    have += got;
    if (got == 0) socket_.AwaitReadable(wait, kReceiving);
  }
}

}  // namespace endpoint
}  // namespace ignite_strategy
