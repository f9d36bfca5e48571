#include "native/binary/object.h"

#include <cstring>

#include "native/binary/types.h"

namespace ignite_strategy {
namespace {

constexpr std::size_t kHeaderSize = 24;
constexpr std::uint16_t kHasSchema = 0x02, kHasRaw = 0x04, kOffset1 = 0x08, kOffset2 = 0x10, kCompact = 0x20;

template <typename T>
T At(const std::uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

[[noreturn]] void Bad(const std::string& what) {
  throw Error(Code::kDataLoss, "a malformed object: " + what);
}

}  // namespace

ObjectView ObjectView::Read(Reader& reader) {
  if (reader.left() < kHeaderSize) Bad("its header is cut off");
  ObjectView view;
  view.data_ = reader.at();
  const std::uint8_t* head = view.data_;
  if (head[0] != code::kObject) Bad("it begins with type code " + std::to_string(head[0]));
  if (head[1] != 1) Bad("its format version is " + std::to_string(head[1]) + ", not 1");
  const auto flags = At<std::uint16_t>(head + 2);
  view.type_id_ = At<std::int32_t>(head + 4);
  const auto length = At<std::int32_t>(head + 12);
  view.schema_id_ = At<std::int32_t>(head + 16);
  const auto schema_offset = At<std::int32_t>(head + 20);
  if (length < static_cast<std::int32_t>(kHeaderSize) || static_cast<std::size_t>(length) > reader.left()) {
    Bad("its length of " + std::to_string(length) + " bytes does not fit");
  }
  const auto size = static_cast<std::size_t>(length);
  reader.Skip(size);
  if (view.type_id_ == 0) {
    Reader name(head, size);
    name.Skip(kHeaderSize);
    view.type_id_ = JavaLowerHash(name.TypedString().value_or(std::string()));
    view.first_field_ = name.offset();
  }
  view.size_ = size;
  view.footer_ = size;
  if ((flags & kHasSchema) == 0) return view;  // no named fields, at most raw data

  std::size_t end = size;
  if ((flags & kHasRaw) != 0) {
    if (size < kHeaderSize + 4) Bad("no room for its raw data offset");
    end -= 4;
  }
  if (schema_offset < static_cast<std::int32_t>(view.first_field_) ||
      static_cast<std::size_t>(schema_offset) > end) {
    Bad("its footer begins at " + std::to_string(schema_offset));
  }
  view.footer_ = static_cast<std::size_t>(schema_offset);
  view.compact_ = (flags & kCompact) != 0;
  view.offset_size_ = (flags & kOffset1) != 0 ? 1 : (flags & kOffset2) != 0 ? 2 : 4;
  view.entry_size_ = view.offset_size_ + (view.compact_ ? 0 : 4);
  const std::size_t footer_size = end - view.footer_;
  view.field_count_ = footer_size;
  if (view.entry_size_ != 1) {  // a division costs as much as the rest
    if (footer_size % view.entry_size_ != 0) Bad("its footer has " + std::to_string(footer_size) + " bytes");
    view.field_count_ = footer_size / view.entry_size_;
  }
  return view;
}

ObjectView ObjectView::ReadWrapped(Reader& reader, Reader* inside) {
  if (reader.Get<std::uint8_t>() != code::kWrapped) Bad("no wrapper around it");
  const std::size_t size = reader.Count(1);
  Reader inner(reader.Bytes(size), size);
  const auto start = reader.Get<std::int32_t>();
  if (start < 0 || static_cast<std::size_t>(start) >= size)
    Bad("it starts at " + std::to_string(start) + " of its wrapper");
  if (inside != nullptr) *inside = inner;
  inner.Skip(static_cast<std::size_t>(start));
  return Read(inner);
}

std::int32_t ObjectView::field_id(std::size_t index) const { return At<std::int32_t>(data_ + Entry(index)); }

Reader ObjectView::Field(std::size_t index) const {
  const std::size_t offset = Offset(index);
  if (offset < first_field_ || offset >= footer_) Bad("a field at offset " + std::to_string(offset));
  return Reader(data_ + offset, footer_ - offset);
}

std::vector<std::int32_t> ObjectView::FieldIds(TypeCache& types) const {
  if (field_count_ == 0) return {};
  std::vector<std::int32_t> ids;
  if (compact_) {
    ids = types.Schema(type_id_, schema_id_);
    if (ids.size() != field_count_) Bad("its footer and its schema differ in the number of fields");
  } else {
    for (std::size_t i = 0; i < field_count_; ++i) ids.push_back(field_id(i));
  }
  return ids;
}

}  // namespace ignite_strategy
