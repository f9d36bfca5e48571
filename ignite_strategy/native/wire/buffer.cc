#include "native/wire/buffer.h"

#include <algorithm>
#include <cstdio>

namespace ignite_strategy {
namespace {

constexpr std::uint8_t kString = 9;
constexpr std::uint8_t kUuid = 10;
constexpr std::uint8_t kNull = 101;

struct CaseRange {
  std::uint16_t first;
  std::uint16_t last;
  std::int32_t step;
  std::int32_t distance;
};
constexpr CaseRange kCaseRanges[] = {
#include "native/wire/lower_case.inc"
};

// Ignite lower-cases names unit by unit with Character.toLowerCase, whatever the locale.
std::uint16_t LowerUnit(std::uint16_t unit) {
  if (unit < 0x80) return unit >= 'A' && unit <= 'Z' ? unit + 32 : unit;
  const auto* range = std::lower_bound(std::begin(kCaseRanges), std::end(kCaseRanges), unit,
                                       [](const CaseRange& r, std::uint16_t u) { return r.last < u; });
  if (range == std::end(kCaseRanges) || unit < range->first || (unit - range->first) % range->step != 0) {
    return unit;
  }
  return static_cast<std::uint16_t>(unit + range->distance);
}

// Calls `visit` for each UTF-16 unit of UTF-8 text; a malformed byte becomes U+FFFD, as in Java.
template <typename Visit>
void ForEachUnit(std::string_view utf8, Visit visit) {
  std::size_t at = 0;
  while (at < utf8.size()) {
    const auto lead = static_cast<std::uint8_t>(utf8[at++]);
    if (lead < 0x80) {
      visit(static_cast<std::uint16_t>(lead));
      continue;
    }
    const int more = lead >= 0xF0 && lead < 0xF5   ? 3
                     : lead >= 0xE0 && lead < 0xF0 ? 2
                     : lead >= 0xC2 && lead < 0xE0 ? 1
                                                   : 0;
    std::uint32_t point = more == 3 ? lead & 0x07 : more == 2 ? lead & 0x0F : lead & 0x1F;
    int read = 0;
    while (read < more && at < utf8.size() && (static_cast<std::uint8_t>(utf8[at]) & 0xC0) == 0x80) {
      point = point << 6 | (static_cast<std::uint8_t>(utf8[at++]) & 0x3F);
      ++read;
    }
    if (more == 0 || read != more) {
      visit(std::uint16_t{0xFFFD});
    } else if (point >= 0x10000) {
      visit(static_cast<std::uint16_t>(0xD800 + ((point - 0x10000) >> 10)));
      visit(static_cast<std::uint16_t>(0xDC00 + ((point - 0x10000) & 0x3FF)));
    } else {
      visit(static_cast<std::uint16_t>(point));
    }
  }
}

}  // namespace

std::string Uuid::ToString() const {
  char text[37];
  std::snprintf(text, sizeof text, "%08x-%04x-%04x-%04x-%012llx", static_cast<unsigned>(most >> 32),
                static_cast<unsigned>(most >> 16 & 0xFFFF), static_cast<unsigned>(most & 0xFFFF),
                static_cast<unsigned>(least >> 48),
                static_cast<unsigned long long>(least & 0xFFFFFFFFFFFFull));
  return text;
}

void Reader::Short(std::size_t size) const {
  throw Error(Code::kDataLoss, "the message ends early: " + std::to_string(size) +
                                   " bytes expected at offset " + std::to_string(offset()) + ", " +
                                   std::to_string(left()) + " left");
}

void Reader::Seek(std::size_t offset) {
  const auto size = static_cast<std::size_t>(end_ - begin_);
  if (offset > size) {
    throw Error(Code::kDataLoss, "the message points to offset " + std::to_string(offset) + " of its " +
                                     std::to_string(size) + " bytes");
  }
  at_ = begin_ + offset;
}

void Reader::BadCount(std::int32_t count) const {
  throw Error(Code::kDataLoss, "the message claims " + std::to_string(count) + " items at offset " +
                                   std::to_string(offset() - sizeof count) + ", with " +
                                   std::to_string(left()) + " bytes left");
}

std::optional<std::string> Reader::TypedString() {
  const std::size_t where = offset();
  const auto code = Get<std::uint8_t>();
  if (code == kNull) return std::nullopt;
  if (code != kString) {
    throw Error(Code::kDataLoss, "a string expected at offset " + std::to_string(where) +
                                     ", found type code " + std::to_string(code));
  }
  const std::size_t size = Count(1);
  return std::string(reinterpret_cast<const char*>(Bytes(size)), size);
}

std::optional<Uuid> Reader::TypedUuid() {
  const std::size_t where = offset();
  const auto code = Get<std::uint8_t>();
  if (code == kNull) return std::nullopt;
  if (code != kUuid) {
    throw Error(Code::kDataLoss, "a UUID expected at offset " + std::to_string(where) + ", found type code " +
                                     std::to_string(code));
  }
  Uuid uuid;
  uuid.most = Get<std::uint64_t>();
  uuid.least = Get<std::uint64_t>();
  return uuid;
}

Writer& Writer::PutTypedString(std::string_view text) {
  Put(kString);
  Put(static_cast<std::int32_t>(text.size()));
  return PutBytes(text.data(), text.size());
}

Writer& Writer::PutTypedUuid(const Uuid& uuid) {
  Put(kUuid);
  Put(uuid.most);
  return Put(uuid.least);
}

std::int32_t JavaHash(std::string_view utf8) {
  std::uint32_t hash = 0;
  ForEachUnit(utf8, [&hash](std::uint16_t unit) { hash = 31 * hash + unit; });
  return static_cast<std::int32_t>(hash);
}

std::int32_t JavaLowerHash(std::string_view utf8) {
  std::uint32_t hash = 0;
  ForEachUnit(utf8, [&hash](std::uint16_t unit) { hash = 31 * hash + LowerUnit(unit); });
  return static_cast<std::int32_t>(hash);
}

}  // namespace ignite_strategy
