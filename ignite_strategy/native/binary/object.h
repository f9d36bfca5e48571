// A binary object in place: header, fields found through the object's own footer, never through the
// metadata's list.
#ifndef IGNITE_STRATEGY_NATIVE_BINARY_OBJECT_H_
#define IGNITE_STRATEGY_NATIVE_BINARY_OBJECT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "native/binary/metadata.h"
#include "native/wire/buffer.h"

namespace ignite_strategy {

class ObjectView {
 public:
  // Reads the object whose type code (103) is the next byte and moves past it. Checks the header against the
  // bytes.
  static ObjectView Read(Reader& reader);
  // The same for an object inside a wrapper (type code 27). `inside` becomes the bytes that are wrapped,
  // within which its references point.
  static ObjectView ReadWrapped(Reader& reader, Reader* inside = nullptr);

  // The id under which the server knows the type: computed from the class name if the object carries that
  // instead.
  std::int32_t type_id() const { return type_id_; }
  std::size_t size() const { return size_; }
  const std::uint8_t* data() const { return data_; }
  std::int32_t schema_id() const { return schema_id_; }
  bool compact() const { return compact_; }
  std::size_t field_count() const { return field_count_; }
  // The id of the field at `index` in a full footer (not compact).
  std::int32_t field_id(std::size_t index) const;
  // A reader on the typed value of the field at `index`, which ends where the object's fields end.
  Reader Field(std::size_t index) const;
  // Where the typed value of that field is, if at least `size` bytes of it lie among the fields; else null.
  const std::uint8_t* Find(std::size_t index, std::size_t size) const {
    if (index >= field_count_) return nullptr;
    const std::size_t offset = Offset(index);
    return offset >= first_field_ && offset < footer_ && size <= footer_ - offset ? data_ + offset : nullptr;
  }
  // The ids of all fields in order, whichever kind of footer the object has.
  std::vector<std::int32_t> FieldIds(TypeCache& types) const;

 private:
  std::size_t Entry(std::size_t index) const { return footer_ + index * entry_size_; }
  std::size_t Offset(std::size_t index) const {
    const std::uint8_t* entry = data_ + Entry(index) + (compact_ ? 0 : 4);
    if (offset_size_ == 1) return *entry;
    std::uint32_t offset = 0;
    std::memcpy(&offset, entry, offset_size_);  // little-endian
    return offset;
  }

  const std::uint8_t* data_ = nullptr;
  std::int32_t type_id_ = 0;
  std::int32_t schema_id_ = 0;
  std::size_t size_ = 0;
  std::size_t first_field_ = 24;
  std::size_t footer_ = 0;  // where the fields end
  std::size_t entry_size_ = 0;
  std::size_t offset_size_ = 4;
  std::size_t field_count_ = 0;
  bool compact_ = false;
};

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_BINARY_OBJECT_H_
