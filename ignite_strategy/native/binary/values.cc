#include "native/binary/values.h"

#include <locale.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace ignite_strategy {
namespace {

constexpr std::size_t kChunk = 64 << 10;
constexpr std::uint32_t kNineDigits = 1'000'000'000;
constexpr std::int64_t kNanosPerMilli = 1'000'000;
// Within 0xfe: an object (0x66) of the class with this hash of "java.sql.Date", the checksum of its fields,
// and then the milliseconds.
constexpr std::uint8_t kSqlDateHead[] = {0x66, 0x3a, 0xde, 0xd5, 0x40};
constexpr std::uint8_t kSqlDateChecksum[] = {0x97, 0x66};
constexpr std::size_t kSqlDateBytes = 15;

std::string_view Text(const Item& item) { return {reinterpret_cast<const char*>(item.data), item.size}; }

Error NotA(const char* what, std::string_view text) {
  const std::string shown(text.substr(0, 60));
  return Error(Code::kInvalidArgument, "'" + shown + (text.size() > 60 ? "..." : "") + "' is not " + what);
}

// The digits of a magnitude of big-endian bytes.
std::string Digits(const std::uint8_t* bytes, std::size_t size) {
  std::vector<std::uint32_t> words;  // big-endian
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t shift = (size - 1 - i) % 4;
    if (i == 0 || shift == 3) words.push_back(0);
    words.back() = words.back() << 8 | bytes[i];
  }
  std::string reversed;
  std::size_t first = 0;
  while (true) {
    while (first < words.size() && words[first] == 0) ++first;
    if (first == words.size()) break;
    std::uint64_t rest = 0;
    for (std::size_t i = first; i < words.size(); ++i) {
      const std::uint64_t part = rest << 32 | words[i];
      words[i] = static_cast<std::uint32_t>(part / kNineDigits);
      rest = part % kNineDigits;
    }
    for (int digit = 0; digit < 9; ++digit) {
      reversed += static_cast<char>('0' + rest % 10);
      rest /= 10;
    }
  }
  while (!reversed.empty() && reversed.back() == '0') reversed.pop_back();
  if (reversed.empty()) reversed = "0";
  return std::string(reversed.rbegin(), reversed.rend());
}

// Java's BigDecimal.toString: plain digits, or an exponent where those would be many zeros.
std::string Placed(const std::string& digits, std::int64_t scale) {
  if (scale == 0) return digits;
  const auto count = static_cast<std::int64_t>(digits.size());
  const std::int64_t exponent = count - 1 - scale;
  if (scale > 0 && exponent >= -6) {
    if (count > scale) {
      const auto point = static_cast<std::size_t>(count - scale);
      return digits.substr(0, point) + "." + digits.substr(point);
    }
    return "0." + std::string(static_cast<std::size_t>(scale - count), '0') + digits;
  }
  std::string text = digits.substr(0, 1);
  if (digits.size() > 1) text += "." + digits.substr(1);
  if (exponent == 0) return text;
  return text + (exponent > 0 ? "E+" : "E") + std::to_string(exponent);
}

// The big-endian bytes of a number of decimal digits.
std::vector<std::uint8_t> Magnitude(const std::string& digits) {
  std::vector<std::uint32_t> words;  // little-endian
  for (std::size_t at = 0; at < digits.size();) {
    const std::size_t size = (digits.size() - at) % 9 == 0 ? 9 : (digits.size() - at) % 9;
    std::uint64_t carry = std::strtoul(digits.substr(at, size).c_str(), nullptr, 10);
    for (std::uint32_t& word : words) {
      carry += static_cast<std::uint64_t>(word) * kNineDigits;
      word = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
    if (carry != 0) words.push_back(static_cast<std::uint32_t>(carry));
    at += size;
  }
  std::vector<std::uint8_t> bytes;
  for (auto word = words.rbegin(); word != words.rend(); ++word) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::uint8_t>(*word >> shift));
  }
  bytes.erase(bytes.begin(), std::find_if(bytes.begin(), bytes.end(), [](auto byte) { return byte != 0; }));
  // The top bit is the sign's.
  if (bytes.empty() || (bytes.front() & 0x80) != 0) bytes.insert(bytes.begin(), 0);
  return bytes;
}

const TypeInfo& Writable(std::uint8_t type_code) {
  const TypeInfo* type = FindType(type_code);
  if (type == nullptr || type->writer == nullptr) {
    throw Error(Code::kUnimplemented, WithArticle(type_code) + " cannot be written");
  }
  return *type;
}

}  // namespace

char* Arena::Allocate(std::size_t size) {
  if (size > left_) {
    const std::size_t chunk = std::max(size, kChunk);
    chunks_.push_back(std::make_unique<char[]>(chunk));
    at_ = chunks_.back().get();
    left_ = chunk;
  }
  char* bytes = at_;
  at_ += size;
  left_ -= size;
  return bytes;
}

std::string_view Arena::Keep(std::string_view text) {
  if (text.empty()) return {"", 0};
  char* bytes = Allocate(text.size());
  std::memcpy(bytes, text.data(), text.size());
  return {bytes, text.size()};
}

std::string ReadDecimal(Reader& reader) {
  const auto scale = reader.Get<std::int32_t>();
  const std::size_t size = reader.Count(1);
  const std::uint8_t* bytes = reader.Bytes(size);
  if (size > kMaxDecimalBytes) {
    throw Error(Code::kDataLoss, "a decimal of " + std::to_string(size) + " bytes, more than the " +
                                     std::to_string(kMaxDecimalBytes) + " that are read");
  }
  std::vector<std::uint8_t> magnitude(bytes, bytes + size);
  const bool negative = size > 0 && (magnitude[0] & 0x80) != 0;
  if (negative) magnitude[0] &= 0x7F;
  return (negative ? "-" : "") + Placed(Digits(magnitude.data(), size), scale);
}

double DecimalToDouble(const std::string& text) {
  // Never destroyed. strtod alone would follow the program's locale and stop at the point.
  static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
  const double value = strtod_l(text.c_str(), nullptr, plain);
  if (std::isinf(value)) throw NotA("within the range of float64", text);
  return value;
}

std::int64_t TimestampNanos(std::int64_t millis, std::int32_t nanos) {
  if (nanos < 0 || nanos >= kNanosPerMilli) {
    throw Error(Code::kDataLoss,
                "a timestamp with " + std::to_string(nanos) + " nanoseconds in a millisecond");
  }
  std::int64_t result = 0;
  // Before 1970 the product alone may be too small for what fits after the addition.
  const std::int64_t whole = millis < 0 ? millis + 1 : millis;
  const std::int64_t rest = millis < 0 ? nanos - kNanosPerMilli : nanos;
  if (__builtin_mul_overflow(whole, kNanosPerMilli, &result) ||
      __builtin_add_overflow(result, rest, &result)) {
    throw Error(Code::kInvalidArgument,
                "a timestamp of " + std::to_string(millis) +
                    " ms since 1970 is outside the years 1677 to 2262, which int64 nanoseconds can tell; "
                    "timestamp=\"ms\" reads milliseconds instead");
  }
  return result;
}

bool ReadSqlDate(Reader& reader, Item* millis) {
  const std::size_t size = reader.Count(1);
  const std::uint8_t* bytes = reader.Bytes(size);
  if (size != kSqlDateBytes || std::memcmp(bytes, kSqlDateHead, sizeof kSqlDateHead) != 0) return false;
  *millis = {bytes + size - sizeof(std::int64_t), sizeof(std::int64_t)};
  return true;
}

void FormatUuid(const std::uint8_t* wire, char* text) {
  static const char kHex[] = "0123456789abcdef";
  // Two little-endian halves, each written from its last byte on.
  int out = 0;
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text[out++] = '-';
    const std::uint8_t byte = wire[i < 8 ? 7 - i : 23 - i];
    text[out++] = kHex[byte >> 4];
    text[out++] = kHex[byte & 15];
  }
}

void WriteString(Writer& writer, const Item& item) {
  if (item.size > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw Error(Code::kInvalidArgument, "a string of more than 2 GiB");
  }
  writer.Put(static_cast<std::int32_t>(item.size)).PutBytes(item.data, item.size);
}

void WriteUuid(Writer& writer, const Item& item) {
  const std::string_view text = Text(item);
  std::uint64_t halves[2] = {0, 0};
  bool good = text.size() == 36;
  int digits = 0;
  for (std::size_t i = 0; good && i < text.size(); ++i) {
    const char c = text[i];
    if (i == 8 || i == 13 || i == 18 || i == 23) {
      good = c == '-';
      continue;
    }
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    good = digit >= 0;
    std::uint64_t& half = halves[digits++ / 16];
    half = half << 4 | static_cast<std::uint64_t>(digit & 15);
  }
  if (!good) throw NotA("a UUID of 36 characters", text);
  writer.Put(halves[0]).Put(halves[1]);
}

void WriteDecimal(Writer& writer, const Item& item) {
  const std::string_view text = Text(item);
  std::size_t at = 0;
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) ++at;
  std::string digits;
  std::int64_t scale = 0;
  bool point = false;
  for (; at < text.size() && text[at] != 'e' && text[at] != 'E'; ++at) {
    if (text[at] == '.' && !point) {
      point = true;
    } else if (text[at] >= '0' && text[at] <= '9') {
      digits += text[at];
      if (point) ++scale;
    } else {
      throw NotA("a decimal number", text);
    }
  }
  if (digits.empty()) throw NotA("a decimal number", text);
  if (at < text.size()) {
    const std::string exponent(text.substr(at + 1));
    char* end = nullptr;
    const long value = std::strtol(exponent.c_str(), &end, 10);
    constexpr long kLimit = 1L << 40;
    if (exponent.empty() || end != exponent.c_str() + exponent.size() || value > kLimit || value < -kLimit) {
      throw NotA("a decimal number", text);
    }
    scale -= value;
  }
  std::vector<std::uint8_t> magnitude = Magnitude(digits);
  if (scale > std::numeric_limits<std::int32_t>::max() || scale < std::numeric_limits<std::int32_t>::min() ||
      magnitude.size() > kMaxDecimalBytes) {
    throw NotA("a decimal number of a size that Ignite keeps", text);
  }
  const bool zero = magnitude.size() == 1 && magnitude[0] == 0;
  if (negative && !zero) magnitude[0] |= 0x80;
  writer.Put(static_cast<std::int32_t>(scale)).Put(static_cast<std::int32_t>(magnitude.size()));
  writer.PutBytes(magnitude.data(), magnitude.size());
}

void WriteTimestamp(Writer& writer, const Item& item) {
  std::int64_t millis = 0;
  if (item.size == kTimestampPair) {  // as Ignite keeps it: years that int64 nanoseconds cannot tell
    std::int32_t rest = 0;
    std::memcpy(&millis, item.data, sizeof millis);
    std::memcpy(&rest, item.data + sizeof millis, sizeof rest);
    if (rest < 0 || rest >= kNanosPerMilli) throw Error(Code::kInternal, "a millisecond of another length");
    writer.Put(millis).Put(rest);
    return;
  }
  if (item.size != sizeof(std::int64_t)) throw Error(Code::kInternal, "an item of the wrong size");
  std::int64_t nanos = 0;
  std::memcpy(&nanos, item.data, sizeof nanos);
  millis = nanos / kNanosPerMilli;
  std::int64_t rest = nanos % kNanosPerMilli;
  if (rest < 0) {
    --millis;
    rest += kNanosPerMilli;
  }
  writer.Put(millis).Put(static_cast<std::int32_t>(rest));
}

void WriteSqlDate(Writer& writer, const Item& item) {
  if (item.size != sizeof(std::int64_t)) throw Error(Code::kInternal, "an item of the wrong size");
  writer.Put(static_cast<std::int32_t>(kSqlDateBytes)).PutBytes(kSqlDateHead, sizeof kSqlDateHead);
  writer.PutBytes(kSqlDateChecksum, sizeof kSqlDateChecksum).PutBytes(item.data, item.size);
}

void WriteScalar(Writer& writer, std::uint8_t type_code, const Item& item) {
  const TypeInfo& type = Writable(type_code);
  writer.Put(type_code);
  type.writer(writer, item);
}

void WriteArray(Writer& writer, std::uint8_t type_code, const std::uint8_t* data, std::size_t count) {
  const TypeInfo& type = Writable(type_code);
  const std::size_t size = ItemSize(type.dtype);
  writer.Put(type_code).Put(static_cast<std::int32_t>(count));
  if (type.layout == Layout::kPacked) {
    writer.PutBytes(data, count * size);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    writer.Put(type.item);
    type.writer(writer, {data + i * size, size});
  }
}

void WriteArray(Writer& writer, std::uint8_t type_code, const std::string_view* items, std::size_t count) {
  const TypeInfo& type = Writable(type_code);
  writer.Put(type_code).Put(static_cast<std::int32_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    writer.Put(type.item);
    type.writer(writer, {reinterpret_cast<const std::uint8_t*>(items[i].data()), items[i].size()});
  }
}

}  // namespace ignite_strategy
