// Little-endian reading and writing of Ignite's wire format. Every length is checked before it is used.
#ifndef IGNITE_STRATEGY_NATIVE_WIRE_BUFFER_H_
#define IGNITE_STRATEGY_NATIVE_WIRE_BUFFER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "native/wire/error.h"

namespace ignite_strategy {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "the wire format is read in place on little-endian hosts only");

// A UUID as Ignite prints it. The wire carries two little-endian 64-bit halves, most significant half first.
struct Uuid {
  std::uint64_t most = 0;
  std::uint64_t least = 0;
  bool operator==(const Uuid& other) const { return most == other.most && least == other.least; }
  bool operator<(const Uuid& other) const {
    return most != other.most ? most < other.most : least < other.least;
  }
  std::string ToString() const;  // 36 characters, lower case
};

// A read position in bytes that somebody else owns. Reading past the end throws Error(kDataLoss).
class Reader {
 public:
  Reader(const std::uint8_t* data, std::size_t size) : begin_(data), at_(data), end_(data + size) {}

  template <typename T>
  T Get() {
    Need(sizeof(T));
    T value;
    std::memcpy(&value, at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  bool GetBool() { return Get<std::uint8_t>() != 0; }
  const std::uint8_t* Bytes(std::size_t size) {
    Need(size);
    const std::uint8_t* bytes = at_;
    at_ += size;
    return bytes;
  }
  // An int32 count that must be >= 0 and whose items, of at least `min_item_size` bytes each, fit what is
  // left.
  std::size_t Count(std::size_t min_item_size) {
    const auto count = Get<std::int32_t>();
    // The product fits: sizes of items are small constants.
    if (count < 0 || static_cast<std::uint64_t>(count) * min_item_size > left()) BadCount(count);
    return static_cast<std::size_t>(count);
  }
  // A typed string: code 9, length, UTF-8; nothing for a typed null.
  std::optional<std::string> TypedString();
  // A typed UUID (code 10); nothing for a typed null.
  std::optional<Uuid> TypedUuid();
  void Skip(std::size_t size) { Bytes(size); }
  void Seek(std::size_t offset);

  std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }
  std::size_t offset() const { return static_cast<std::size_t>(at_ - begin_); }
  const std::uint8_t* at() const { return at_; }

 private:
  void Need(std::size_t size) const {
    if (size > left()) Short(size);
  }
  [[noreturn]] void Short(std::size_t size) const;
  [[noreturn]] void BadCount(std::int32_t count) const;

  const std::uint8_t* begin_;
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

class Writer {
 public:
  template <typename T>
  Writer& Put(T value) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
    return *this;
  }
  Writer& PutBool(bool value) { return Put<std::uint8_t>(value ? 1 : 0); }
  Writer& PutBytes(const void* data, std::size_t size) {
    const auto* bytes = static_cast<const std::uint8_t*>(data);
    bytes_.insert(bytes_.end(), bytes, bytes + size);
    return *this;
  }
  Writer& PutTypedString(std::string_view text);
  Writer& PutTypedUuid(const Uuid& uuid);
  Writer& PutNull() { return Put<std::uint8_t>(101); }

  const std::vector<std::uint8_t>& bytes() const { return bytes_; }
  std::vector<std::uint8_t>& bytes() { return bytes_; }
  std::size_t size() const { return bytes_.size(); }

 private:
  std::vector<std::uint8_t> bytes_;
};

// Java's String.hashCode over the UTF-16 units of UTF-8 text: cache ids, type ids and field ids are such
// hashes.
std::int32_t JavaHash(std::string_view utf8);
// The hash of the lower-cased text, as Ignite's default name mapper uses for type names and field names.
std::int32_t JavaLowerHash(std::string_view utf8);

// How every request about a cache begins, outside transactions: id and flags.
inline Writer CachePrefix(std::int32_t cache) {
  Writer writer;
  writer.Put(cache).Put<std::uint8_t>(0);
  return writer;
}
inline Writer CachePrefix(std::string_view cache) { return CachePrefix(JavaHash(cache)); }

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_WIRE_BUFFER_H_
